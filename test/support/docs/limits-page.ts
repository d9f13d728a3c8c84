import { TABLE } from '../../../shared/config/index.ts';
import { codeRow, LIMITS, limitNames } from '../../../shared/errors/index.ts';

const PREFACE = `# Limits

This page lists what a request may cost, and what happens beyond each limit. Stator checks these limits before it trusts
a request. \`npm run docs\` makes the page from \`shared/errors/limits.ts\` and the table of settings; do not edit it.

- An error names the field and the limit. Stator refuses a request before any work, so nothing of the request reaches a
  worker. The exceptions are limits on what grows with the [answer](#answers).
- \`stator_frontend_limits_reached_total{limit}\` counts how often each limit was reached. Its label is the name in the
  first column of [the table](#every-limit). Every name is there from the start, at zero.
- An error 503 comes with \`Retry-After\`: the process is full now. After any other refusal, a client should not repeat
  the request, because Stator would refuse it again.
- Gauges show what the process holds now: \`stator_frontend_body_bytes\`, \`stator_frontend_answer_bytes\`, and
  \`stator_frontend_websockets\` for open WebSockets.

## Answers

Stator collects an answer that is not streamed before it sends it. It also collects every response of the Responses API,
streamed or not, for the last event. It counts the memory of such an answer as the answer grows: 48 bytes for each piece
of text, 2 for each character, and about 256 for each log probability.

- If \`n\` x \`max_tokens\` x (1 + \`top_logprobs\`) values cannot fit into \`answer_bytes\`, the request gets 400. Without
  \`max_tokens\`, the answer ends with \`length\` when it has used that much memory.
- An answer can outgrow the limit although its tokens fit (long pieces, bodies of a worker). Then it fails with 400, and
  Stator tells its worker to stop.
- The text of a stream does not count. If the client does not keep up, the worker must pause after 64 KiB and 256
  outputs. If the worker sends more, the stream fails.

\`answers_bytes\` is the memory for all collected answers together. When it is used up, new requests get 503, and so do
answers that still grow. Unless you set them, \`answers_bytes\` and \`bodies_bytes\` are each a quarter of the heap limit,
so requests hold at most half of the heap.

## What workers make

\`max_tokens\`, or the rest of the context, limits an answer, whatever a worker sends. After a move to another worker,
it limits the whole answer. Stator cuts a choice after its last allowed token and ends it with \`length\`. \`usage\`
counts what the client received. Stator tells the worker to stop, and names it once in the log:
\`worker made more tokens than asked for\`.

- If a worker sends text without token ids, Stator can only estimate its tokens. It cuts such text at twice
  \`max_tokens\` plus 64.
- If a worker makes more choices than \`n\`, the request fails with 502. Stator leaves out log probabilities without a
  token, and alternatives beyond \`top_logprobs\`.
- One output of a worker has at most 32,768 letters and 4,096 tokens with 128 alternatives each, so that no other stream
  waits long while Stator reads it. Workers split longer outputs themselves.
- For workers that answer with whole bodies, only the bytes are limited.

## Every limit

| name | what it limits | limit | setting | beyond the limit |
|---|---|---|---|---|
`;

function rowOf(name: (typeof limitNames)[number]): string {
  const row: {
    readonly what: string;
    readonly max: number | string;
    readonly orMore?: string;
    readonly code?: string;
    readonly beyond?: string;
  } = LIMITS[name];
  const setting = [...TABLE.values()].find(({ env }) => env.some((one) => String(row.max).endsWith(one)));
  const most = typeof row.max === 'number' ? String(row.max) : mostOf(row.max, setting);
  const limit = row.orMore === undefined ? most : `${most}, or ${row.orMore}`;
  const variable = setting === undefined ? '-' : `\`${setting.env[0]}\``;
  const beyond =
    row.code === undefined
      ? row.beyond
      : `${codeRow(row.code as Parameters<typeof codeRow>[0]).status} \`${row.code}\``;
  return `| \`${name}\` | ${row.what} | ${limit} | ${variable} | ${beyond} |`;
}

type Setting = typeof TABLE extends ReadonlyMap<string, infer R> ? R : never;

function mostOf(text: string, setting: Setting | undefined): string {
  if (setting === undefined) return text;
  const name = setting.env[0] as string; // the setting's entry in the table
  const value = setting.defaultText ?? String('default' in setting ? setting.default : '');
  return text.replace(name, `${value}${/^\d+$/.test(value) ? ` ${name.endsWith('_MB') ? 'MiB' : 'bytes'}` : ''}`);
}

/** Returns the text of docs/limits.md. */
export function limitsPage(): string {
  return `${PREFACE}${limitNames.map(rowOf).join('\n')}\n`;
}
