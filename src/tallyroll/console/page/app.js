// @ts-check
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const headers = token ? { Authorization: `Bearer ${token}` } : undefined;
const answer = await (await fetch("/api/tonight", { headers })).json();
const view = /** @type {HTMLElement} */ (document.getElementById("view"));
view.textContent = JSON.stringify(answer);
