/**
 * What comes before and after the UUID: `chatcmpl-`, `cmpl-`, `resp_`, `msg_`; `-<index>` of a prompt in a batch, or the name of
 * a running request, by which other edges find it.
 */
const ID =
  /^(?:[a-z]{1,16}[-_])?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})(?:-\d{1,6})?(?:_([0-9a-f]{40}))?$/i;

/**
 * What all ids of one request have in common: `chatcmpl-<uuid>`, `resp_<uuid without dashes>` and `<uuid>-<index>` of a batch
 * all name the request `<uuid>`. Undefined for what no server has given.
 */
export function requestKeyOf(id: string): string | undefined {
  return ID.exec(id)?.[1]?.replaceAll('-', '').toLowerCase();
}

/** What the id of a running request has behind its UUID, lower case; undefined when it has nothing there. */
export function requestNameOf(id: string): string | undefined {
  return ID.exec(id)?.[2]?.toLowerCase();
}
