const UUID = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/i;

/**
 * What all ids of one request have in common: `chatcmpl-<uuid>`, `resp_<uuid without dashes>` and `<uuid>-<index>` of a batch
 * all name the request `<uuid>`. An id of a client's own making is its own key.
 */
export function requestKeyOf(id: string): string {
  const uuid = UUID.exec(id)?.[0];
  return uuid === undefined ? id : uuid.replaceAll('-', '').toLowerCase();
}
