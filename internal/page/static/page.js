// The server makes all that is shown. This puts what has changed in its place.
"use strict";

const pool = document.body.dataset.pool;
const status = document.getElementById("status");
const pause = document.getElementById("pause");
let stream;

function connect() {
	stream = new EventSource("events?pool=" + pool);
	stream.onopen = () => { status.textContent = "live"; };
	stream.onmessage = (message) => show(JSON.parse(message.data));
	stream.onerror = () => {
		if (stream.readyState === EventSource.CLOSED) { // the server refused
			status.textContent = "not live: too many watch, or the server is about to end; trying again";
			setTimeout(connect, 10000);
		} else {
			status.textContent = "connection lost; trying again";
		}
	};
}

function show(update) {
	for (const [id, html] of Object.entries(update.parts)) {
		const element = document.getElementById(id);
		if (!element) continue;
		const open = new Set([...element.querySelectorAll("details[open]")].map((d) => d.dataset.key));
		element.innerHTML = html;
		for (const details of element.querySelectorAll("details")) details.open = open.has(details.dataset.key);
	}
	const columns = document.getElementById("columns");
	if (columns && update.columns.length > 0) {
		columns.insertAdjacentHTML("beforeend", update.columns.join(""));
		while (columns.children.length > update.keep) columns.firstElementChild.remove();
		const first = update.keep - columns.children.length;
		[...columns.children].forEach((column, i) => column.setAttribute("transform", `translate(${first + i} 0)`));
	}
	if (update.reload) location.reload();
	if (update.ended) {
		stream.close();
		pause.hidden = true;
		status.textContent = "the pool has ended; this is what was last seen of it";
	}
}

pause.addEventListener("click", () => {
	if (stream) {
		stream.close();
		stream = undefined;
		status.textContent = "paused";
		pause.textContent = "Go on";
	} else {
		location.reload();
	}
});
pause.hidden = false;
connect();
