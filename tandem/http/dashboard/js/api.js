// Speaks to the server's own routes, relative to the page: behind a proxy's prefix it finds them too.

/** What the server refused, or that it could not be reached (status 0). */
export class ApiFault extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string | null} [param]
   */
  constructor(status, message, param = null) {
    super(message);
    this.name = "ApiFault";
    this.status = status;
    /** The parameter at fault. */
    this.param = param;
  }
}

/**
 * The full address of a route: `v1/dashboard/live`, `health`.
 * @param {string} path without the leading slash
 * @param {Record<string, string | number | boolean | null | undefined>} [params] those without a value are left out
 * @returns {URL}
 */
export function route(path, params = {}) {
  const url = new URL("../" + path.replace(/^\/+/, ""), document.baseURI);
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/**
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function getJson(path, params, signal) {
  return ask(route(path, params), { signal: signal ?? null });
}

/**
 * @param {"POST" | "PUT" | "PATCH" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body] JSON; none where undefined
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function sendJson(method, path, body, signal) {
  const headers = body === undefined ? undefined : { "content-type": "application/json" };
  const sent = body === undefined ? null : JSON.stringify(body);
  return ask(route(path), { method, body: sent, signal: signal ?? null, ...(headers && { headers }) });
}

/**
 * @param {URL} url
 * @param {RequestInit} init
 * @returns {Promise<any>}
 */
async function ask(url, init) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(url, { cache: "no-store", ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiFault(0, "The server cannot be reached.");
  }
  if (!response.ok) throw await fault(response);
  try {
    return await response.json();
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiFault(response.status, "The answer of the server is no JSON.");
  }
}

/**
 * The fault that a response tells of, in the server's words where it has some.
 * @param {Response} response
 * @returns {Promise<ApiFault>}
 */
export async function fault(response) {
  /** @type {any} */
  let body = null;
  try {
    body = await response.json();
  } catch {
    // not ours: a proxy's page, say
  }
  const error = body?.error;
  const message = typeof error?.message === "string" ? error.message : `The server answered ${response.status}.`;
  return new ApiFault(response.status, message, typeof error?.param === "string" ? error.param : null);
}
