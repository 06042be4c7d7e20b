"""The console: a page in the browser that shows a pipeline live. It only reads."""
