import { reasonOf } from '../errors/index.ts';
import { type ExplanationRecord, renderExplanation } from '../scheduler/index.ts';
import { parseFlags, UsageError } from './config.ts';

/** Lines of `stator router explain --help`. */
export const EXPLAIN_HELP = `Usage: stator router explain REQUEST_ID [--url URL]
       stator router explain --prompt TEXT [--model NAME] [--url URL]

Explains why one of the last requests went to its worker, or where a prompt would go now. It prints every candidate with
its cached blocks, its load and the parts of its cost. With prefill workers, the decision for prefill comes first.

  REQUEST_ID        a response id (chatcmpl-...), not the client's own x-request-id
  --prompt TEXT     text of a completion; no worker receives it
  --model NAME      model of the prompt (default: the only model that is served)
  --url URL         base URL of the frontend (default: http://127.0.0.1:8000)
  --json            prints the answer of the frontend unchanged

A frontend on another machine requires STATOR_ADMIN_KEY in the environment.
`;

const URL_DEFAULT = 'http://127.0.0.1:8000';
const ANSWER_MS_MAX = 30_000;

type Asked = Ask & { readonly adminKey: string | undefined };
type Ask = { readonly url: string; readonly isJson: boolean } & (
  | { readonly kind: 'request'; readonly requestId: string }
  | { readonly kind: 'prompt'; readonly prompt: string; readonly model: string | undefined }
);

/**
 * Runs `stator router explain`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, Error with one line when the frontend cannot answer
 */
export async function explainRouting(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string> {
  const ask = { ...readAsk(argv), adminKey: env.STATOR_ADMIN_KEY };
  const explanation = ask.kind === 'request' ? await askFor(ask) : await askWith(ask);
  return ask.isJson ? `${JSON.stringify(explanation, undefined, 2)}\n` : renderExplanation(explanation);
}

function readAsk(argv: readonly string[]): Ask {
  const { values, positionals } = parseFlags({
    args: [...argv],
    allowPositionals: true,
    options: {
      prompt: { type: 'string' },
      model: { type: 'string' },
      url: { type: 'string' },
      json: { type: 'boolean' },
    },
  });
  const { prompt, model, json: isJson = false } = values;
  const url = (values.url ?? URL_DEFAULT).replace(/\/$/, '');
  if (!URL.canParse(url)) throw new UsageError(`--url ${JSON.stringify(url)}: allowed: a URL such as ${URL_DEFAULT}`);
  const [requestId, ...more] = positionals;
  if (more.length > 0 || (requestId === undefined) === (prompt === undefined)) {
    throw new UsageError('stator router explain takes either one request id or --prompt TEXT');
  }
  if (requestId !== undefined) return { kind: 'request', requestId, url, isJson };
  return { kind: 'prompt', prompt: prompt ?? '', model, url, isJson };
}

function askFor({ url, requestId, adminKey }: Asked & { kind: 'request' }): Promise<ExplanationRecord> {
  return fetchJson(`${url}/router/explain/${encodeURIComponent(requestId)}`, { headers: keyHeader(adminKey) });
}

function keyHeader(adminKey: string | undefined): Readonly<Record<string, string>> {
  return adminKey === undefined ? {} : { authorization: `Bearer ${adminKey}` };
}

async function askWith({ url, prompt, model, adminKey }: Asked & { kind: 'prompt' }): Promise<ExplanationRecord> {
  const body = JSON.stringify({ model: model ?? (await onlyModel(url, adminKey)), prompt });
  const headers = { 'content-type': 'application/json', ...keyHeader(adminKey) };
  return fetchJson(`${url}/router/explain`, { method: 'POST', headers, body });
}

async function onlyModel(url: string, adminKey: string | undefined): Promise<string> {
  const { data } = await fetchJson<{ readonly data: readonly { readonly id: string }[] }>(`${url}/v1/models`, {
    headers: keyHeader(adminKey),
  });
  const [first, ...others] = data.map(({ id }) => id);
  if (first === undefined) throw new Error(`no model is served at ${url}`);
  if (others.length > 0) throw new UsageError(`--model is needed: ${[first, ...others].join(', ')} are served`);
  return first;
}

async function fetchJson<T>(url: string, init: RequestInit = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
  } catch (thrown) {
    throw new Error(`no answer from ${url} (--url): ${reasonOf((thrown as Error).cause ?? thrown)}`);
  }
  const text = await response.text();
  if (!response.ok) throw new Error(messageOf(text) ?? `status ${response.status} from ${url}`);
  return JSON.parse(text) as T;
}

function messageOf(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { readonly error?: { readonly message?: string } }).error?.message;
  } catch {
    return undefined; // not one of our answers: the status says it
  }
}
