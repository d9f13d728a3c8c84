import { TABLE } from '../../../shared/config/index.ts';
import { codeRow, LIMITS, limitNames } from '../../../shared/errors/index.ts';

const PREFACE = `# Limits

What a request may cost before it is believed. The table is made from \`shared/errors/limits.ts\` and the table of settings by
\`npm run docs\`; do not edit.

- An error names the field and the limit. A refusal is made before the work: nothing of the request reaches a worker, unless the table
  says that it is measured while the answer grows.
- \`stator_frontend_limits_reached_total{limit}\` counts each time a limit was reached, under the name in the first column; every name is
  there from the start, at zero.
- 503 comes with \`Retry-After\`. It means that the process is full now; all other refusals would be the same tomorrow, and no client
  should try them again.
- What is held now: \`stator_frontend_body_bytes\`, \`stator_frontend_answer_bytes\`; how many WebSockets are open: \`stator_frontend_websockets\`.

## Answers

An answer that is not streamed is kept until it is whole, and a response of the Responses API for its last event, streamed or not.
What it takes is counted as it grows: 48 bytes a piece of text and 2 a character, about 256 a log probability. So a request for
\`n\` x \`max_tokens\` x (1 + \`top_logprobs\`) values is refused with 400 when they cannot fit into \`answer_bytes\`; without
\`max_tokens\` the answer ends with \`length\` where its room ends. An answer that outgrows the limit although its tokens did not (long
pieces, bodies of a worker) fails with 400 and its worker is told to stop. Streams need no room: a reader that does not keep up stops
its worker after 64 KiB and 256 outputs, and a worker that goes on all the same loses the stream.

\`answers_bytes\` is the room for all of them together: a request that finds none is 503, and so is an answer that grows into a full
room. It and \`bodies_bytes\` are each a quarter of the heap limit unless set, so that what requests hold stays within half of the heap.

## What workers make

\`max_tokens\`, or what the context leaves, holds whatever a worker sends, after a move to another worker, too: a choice is cut behind its
last token and ends with \`length\`, \`usage\` counts what the client was given, the worker is told to stop, and a line
\`worker made more tokens than asked for\` names it once. Text that a worker sends without its tokens can only be estimated: it is cut at
twice as many and 64. Choices beyond \`n\` are 502; log probabilities beyond the tokens, and alternatives beyond \`top_logprobs\`, are
left out. One output of a worker has at most 32,768 letters and 4,096 tokens with 128 alternatives each, so that no other stream
waits while it is looked through; workers cut longer ones themselves. What workers that answer with whole bodies say is bounded by bytes alone.

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
