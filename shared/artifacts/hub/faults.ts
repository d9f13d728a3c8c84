import { type HubModel, nameOfHubModel } from '../../config/index.ts';

/** Failure of a request to the hub. The message is one line that says what to do. */
export class HubFault extends Error {
  override readonly name = 'HubFault';
  /** Whether the same request may succeed a little later. */
  readonly isTransient: boolean;
  /** Time that the hub asks its client to wait; undefined if it names none. */
  readonly waitMs: number | undefined;

  constructor(
    message: string,
    options: { readonly isTransient?: boolean; readonly waitMs?: number } & ErrorOptions = {},
  ) {
    super(message, options);
    this.isTransient = options.isTransient ?? false;
    this.waitMs = options.waitMs;
  }
}

/** Facts about a request that the hub has refused. */
export interface RefusedRequest {
  readonly endpoint: string;
  readonly model: HubModel;
  /** Whether the request carried the token. */
  readonly sentToken: boolean;
  /** Whether there is a token, which is not sent over plain HTTP. */
  readonly hasToken: boolean;
}

/** Longest text of the hub that a message repeats, in characters. */
const HUB_TEXT_MAX = 200;

/** Returns the failure for a status other than success, with the reason that the hub gives in its headers. */
export function faultOfHub(status: number, headers: Headers, request: RefusedRequest): HubFault {
  const { endpoint, model } = request;
  const { id } = model;
  const code = headers.get('x-error-code');
  const told = tellable(headers.get('x-error-message'));
  const says = told === '' ? '' : `: ${told}`;
  if (code === 'RevisionNotFound') {
    return new HubFault(`${endpoint} has no revision ${model.revision} of ${id}: check the part after @`);
  }
  if (code === 'GatedRepo') {
    return new HubFault(
      `${nameOfHubModel(model)} is gated: accept its terms at ${endpoint}/${id}, and ${tokenAdvice(request, 'of that account')}`,
    );
  }
  if (status === 401 && request.sentToken && code !== 'RepoNotFound') {
    return new HubFault(`${endpoint} rejects the token${says}: set HF_TOKEN to a valid one, or log in (hf auth login)`);
  }
  if (status === 401 || status === 404 || code === 'RepoNotFound') {
    return new HubFault(
      `${endpoint} has no model ${nameOfHubModel(model)} for this user: check its name; if it is private, ${tokenAdvice(request, 'that may read it')}`,
    );
  }
  if (status === 403) {
    return new HubFault(
      `${endpoint} forbids to read ${nameOfHubModel(model)}${says}: ${tokenAdvice(request, 'that may read it')}`,
    );
  }
  const isTransient = status === 408 || status === 429 || status >= 500;
  const hint = status === 429 && !request.sentToken ? '; requests with a token (HF_TOKEN) have a higher limit' : '';
  return new HubFault(`${endpoint} answered ${status}${says}${hint}`, { isTransient, ...waitOf(headers) });
}

function tokenAdvice({ endpoint, sentToken, hasToken }: RefusedRequest, which: string): string {
  if (hasToken && !sentToken) return `use HTTPS: the token is not sent to ${endpoint}`;
  return `set HF_TOKEN to ${sentToken ? 'another token' : 'a token'} ${which}`;
}

/** Returns text of the hub as one printable line. */
function tellable(text: string | null): string {
  return (text ?? '')
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, HUB_TEXT_MAX);
}

/** Reads `Retry-After` in seconds. */
function waitOf(headers: Headers): { readonly waitMs?: number } {
  const seconds = /^\d{1,6}$/.exec(headers.get('retry-after') ?? '')?.[0];
  return seconds === undefined ? {} : { waitMs: Number(seconds) * 1000 };
}
