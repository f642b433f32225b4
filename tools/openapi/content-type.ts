/** What a content type means to a client: bytes to keep, or text to read. */

export function isBinary(contentType: string): boolean {
  return !/^text\/|json/.test(contentType);
}

/** Read while it comes. */
export function isStream(contentType: string | undefined): boolean {
  return contentType === 'text/event-stream' || contentType === 'application/x-ndjson';
}
