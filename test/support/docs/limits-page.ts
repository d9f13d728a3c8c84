import { TABLE } from '../../../shared/config/index.ts';
import { codeRow, LIMITS, limitNames } from '../../../shared/errors/index.ts';

const PREFACE = `# Limits

Stator enforces these limits before it trusts a request. \`npm run docs\` makes the table from \`shared/errors/limits.ts\`
and the table of settings; do not edit it.

- An error names the field and the limit. Stator refuses a request before any work: nothing of the request reaches a
  worker, unless the table says that the limit is measured while the answer grows.
- \`stator_frontend_limits_reached_total{limit}\` counts how often each limit was reached. Its label is the name in the
  first column; every name is there from the start, at zero.
- An error 503 comes with \`Retry-After\`: the process is full now. All other refusals would be the same tomorrow, so no
  client should repeat such a request.
- Gauges show what the process holds now: \`stator_frontend_body_bytes\`, \`stator_frontend_answer_bytes\`, and
  \`stator_frontend_websockets\` for open WebSockets.

## Answers

Stator collects an answer that is not streamed before it sends it. It also collects every response of the Responses API,
streamed or not, for the last event. The memory of such an answer is counted as it grows: 48 bytes for each piece of
text and 2 for each character, and about 256 for each log probability.

- A request for \`n\` x \`max_tokens\` x (1 + \`top_logprobs\`) values that cannot fit into \`answer_bytes\` gets 400. Without
  \`max_tokens\`, the answer ends with \`length\` when its room is used up.
- An answer can outgrow the limit although its tokens fit (long pieces, bodies of a worker). Then it fails with 400, and
  Stator tells its worker to stop.
- Streams need no room. If the reader does not keep up, its worker is stopped after 64 KiB and 256 outputs; a worker
  that goes on in spite of that loses the stream.

\`answers_bytes\` is the room for all collected answers together. A request that finds no room gets 503, and so does an
answer that grows when the room is full. \`answers_bytes\` and \`bodies_bytes\` are each a quarter of the heap limit unless
set, so requests hold at most half of the heap.

## What workers make

\`max_tokens\`, or the rest of the context, limits an answer whatever a worker sends, also after a move to another worker.
Stator cuts a choice after its last allowed token and ends it with \`length\`. \`usage\` counts what the client received.
Stator tells the worker to stop, and the log names it once in a line \`worker made more tokens than asked for\`.

- Tokens of text that a worker sends without token ids can only be estimated: Stator cuts it at twice \`max_tokens\`
  plus 64.
- More choices than \`n\` are an error 502. Stator leaves out log probabilities without a token, and alternatives beyond
  \`top_logprobs\`.
- One output of a worker has at most 32,768 letters and 4,096 tokens with 128 alternatives each, so that no other stream
  waits long while it is processed. Workers split longer outputs themselves.
- For workers that answer with whole bodies, only the bytes are limited.

## Every limit

| name | what | most | setting | beyond it |
|---|---|---|---|---|
`;

function rowOf(name: (typeof limitNames)[number]): string {
  const row: {
    readonly what: string;
    readonly max: number | string;
    readonly code?: string;
    readonly beyond?: string;
  } = LIMITS[name];
  const setting = [...TABLE.values()].find(({ env }) => env.some((one) => String(row.max).endsWith(one)));
  const most = typeof row.max === 'number' ? String(row.max) : mostOf(row.max, setting);
  const variable = setting === undefined ? '-' : `\`${setting.env[0]}\``;
  const beyond =
    row.code === undefined
      ? row.beyond
      : `${codeRow(row.code as Parameters<typeof codeRow>[0]).status} \`${row.code}\``;
  return `| \`${name}\` | ${row.what} | ${most} | ${variable} | ${beyond} |`;
}

type Setting = typeof TABLE extends ReadonlyMap<string, infer R> ? R : never;

function mostOf(text: string, setting: Setting | undefined): string {
  if (setting === undefined) return text;
  const name = setting.env[0] as string; // found by it
  const value = setting.defaultText ?? String('default' in setting ? setting.default : '');
  return text.replace(name, `${value}${/^\d+$/.test(value) ? ` ${name.endsWith('_MB') ? 'MiB' : 'bytes'}` : ''}`);
}

/** The text of docs/limits.md. */
export function limitsPage(): string {
  return `${PREFACE}${limitNames.map(rowOf).join('\n')}\n`;
}
