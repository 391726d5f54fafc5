// Package browser tests the page of pool/poolhttp in a real browser. It is a module of its own, so that no other module
// needs chromedp.
//
// The tests need Chromium, headless, as in Debian's package chromium; without it they say so and are skipped. With
// HEIST_SCREENSHOTS=DIR they leave pictures of the page there.
package browser
