/** What comes before and after the UUID: `chatcmpl-`, `cmpl-`, `resp_`, `msg_`; `-<index>` of a prompt in a batch. */
const ID = /^(?:[a-z]{1,16}[-_])?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})(?:-\d{1,6})?$/i;

/**
 * What all ids of one request have in common: `chatcmpl-<uuid>`, `resp_<uuid without dashes>` and `<uuid>-<index>` of a batch
 * all name the request `<uuid>`. Undefined for what no server has given.
 */
export function requestKeyOf(id: string): string | undefined {
  return ID.exec(id)?.[1]?.replaceAll('-', '').toLowerCase();
}
