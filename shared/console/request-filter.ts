export const REQUEST_OUTCOMES = ['running', 'succeeded', 'failed'] as const;
export type RequestOutcomeName = (typeof REQUEST_OUTCOMES)[number];

/** Requests that a viewer wants; a field that is undefined does not matter. */
export interface RequestFilter {
  readonly model?: string | undefined;
  readonly key?: string | undefined;
  readonly worker?: string | undefined;
  readonly outcome?: RequestOutcomeName | undefined;
  /** Part of an id of the request, in lower case. */
  readonly id?: string | undefined;
}
