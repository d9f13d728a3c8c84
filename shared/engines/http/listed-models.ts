import { jsonOrText } from './upstream.ts';

/** Where a server may say how long a sequence can be: vLLM and SGLang, then others. */
const CONTEXT_FIELDS = ['max_model_len', 'context_length', 'context_window', 'max_context_length'];

/** One row of `/v1/models`. */
export interface ListedModel {
  readonly id: string;
  readonly contextLength: number | undefined;
  /** Folder or repository of the weights. */
  readonly root: string | undefined;
  /** Set on an adapter: the model that it adapts. */
  readonly parent: string | undefined;
}

/** The models of an answer of `/v1/models`; none when it is not such an answer. */
export function readModels(text: string): readonly ListedModel[] {
  const body = jsonOrText(text) as { data?: unknown } | null;
  const rows: unknown[] = Array.isArray(body?.data) ? body.data : [];
  return rows.flatMap((row) => {
    const fields = (row ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof fields.id !== 'string') return [];
    const lengths = CONTEXT_FIELDS.map((name) => fields[name]);
    const contextLength = lengths.find((value) => typeof value === 'number' && Number.isInteger(value) && value > 0);
    return [
      {
        id: fields.id,
        contextLength: contextLength as number | undefined,
        root: textOf(fields.root),
        parent: textOf(fields.parent),
      },
    ];
  });
}

/**
 * `http://host:8000`, with or without `/v1` behind it.
 * @throws TypeError when it is no HTTP URL
 */
export function baseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError(`the engine's URL must start with http:// or https://, got \`${text}\``);
  }
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return url;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
