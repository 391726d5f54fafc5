// Package browser tests the page of pool/poolhttp in a real browser. It is a module of its own, so that nobody else needs chromedp.
//
// The tests need Chromium, headless, as Debian's package chromium has it; without one they say so and are skipped. With HEIST_SCREENSHOTS=DIR
// they leave pictures of the page there.
package browser
