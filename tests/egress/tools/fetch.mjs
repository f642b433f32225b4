// fetch.mjs URL [AUTHORIZATION]: prints status and body with Node's own fetch.
const [, , url, authorization] = process.argv;
const response = await fetch(url, authorization === undefined ? {} : { headers: { authorization } });
console.log(response.status, await response.text());
process.exitCode = response.ok ? 0 : 22;
