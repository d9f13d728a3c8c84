import type { RecordedRow } from './records.ts';

export type Body = Record<string, unknown>;
export type Chunk = { choices?: Body[]; usage?: unknown; [key: string]: unknown };

/** Returns the JSON object in the body of the request, or an empty one if the body is something else. */
export function requestBody({ asked }: RecordedRow): Body {
  return typeof asked === 'object' && asked !== null && !Array.isArray(asked) ? (asked as Body) : {};
}

/** Returns `nvext` of a request. */
export function nvextOf(row: RecordedRow): Body {
  const { nvext } = requestBody(row);
  return typeof nvext === 'object' && nvext !== null ? (nvext as Body) : {};
}

export const isChat = ({ request }: RecordedRow): boolean => /\/chat(\/completions)?$/.test(request.path);
export const isCompletions = (row: RecordedRow): boolean =>
  /\/(completions|cmp)$/.test(row.request.path) && !isChat(row);
export const isResponses = ({ request }: RecordedRow): boolean => /^(?:\/v1\/responses|\/b\/rsp)$/.test(request.path);
/** Whether a client of Anthropic's API asks a route of models, on a server with that API. */
const isOfAnthropicsModels = ({ server, request }: RecordedRow): boolean =>
  server === 'default' &&
  request.path.startsWith('/v1/models') &&
  (request.headers ?? []).some(([name]) => name === 'anthropic-version');

/**
 * Whether the answer is in Anthropic's dialect: below the route of Messages if that API is on, or about models to its
 * clients.
 */
export const isMessages = (row: RecordedRow): boolean => isBelowMessages(row) || isOfAnthropicsModels(row);

const isBelowMessages = ({ server, request }: RecordedRow): boolean =>
  (server === 'default' && request.path.startsWith('/v1/messages')) ||
  (server === 'env2' && request.path.startsWith('/b/msg')) ||
  (server === 'mocker' && request.path.startsWith('/v1/messages'));
export const isThresholds = ({ request }: RecordedRow): boolean => request.path === '/busy_threshold';

export const isMedia = ({ group }: RecordedRow): boolean => group === 'images' || group === 'videos';
export const isEmbeddings = ({ request }: RecordedRow): boolean => /\/emb(?:eddings)?$/.test(request.path);

/** Whether the request is a batch of several prompts. */
export function isBatch(row: RecordedRow): boolean {
  const { prompt } = requestBody(row);
  return isCompletions(row) && Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number';
}

/** Counts tokens. Every byte is a token of the fixture model, except in its control tokens. */
export function tokensOf(prompt: string): number {
  return Buffer.byteLength(prompt.replaceAll(/<\|(endoftext|im_start|im_end)\|>/g, '\u0000'));
}

/** Returns the seconds of silence before each step of the worker. */
export function pausesOf({ script }: RecordedRow): readonly number[] {
  return (script?.steps ?? []).map(({ sleep }) => sleep ?? script?.sleep ?? 0);
}

/** Joins all outputs of the worker, or returns undefined if one of them is not text. */
export function scriptText({ script }: RecordedRow): string | undefined {
  const steps = script?.steps ?? [];
  return steps.every(({ t }) => typeof t === 'string') ? steps.map(({ t }) => t).join('') : undefined;
}
