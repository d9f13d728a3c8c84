import { choicesOf, type Difference, failWith, isRecordedError, refuseWith } from '../expectation.ts';
import { type Body, isChat, isCompletions, isEmbeddings, nvextOf, requestBody, tokensOf } from '../fields.ts';
import { Matcher, textWith } from '../match.ts';
import type { RecordedRow } from '../records.ts';
import { usualRequest } from '../usual-answer.ts';

const contextOf = ({ served }: RecordedRow): number => served?.context_length ?? 4096;

function taintsOf(row: RecordedRow): readonly unknown[] {
  const constraints = nvextOf(row).routing_constraints as { readonly required_taints?: readonly unknown[] } | undefined;
  return constraints?.required_taints ?? [];
}

/** Requests that 1.6.1 passes on, and that this product refuses or bounds. */
export const REFUSED: readonly Difference[] = [
  {
    why: 'a prompt at or over the context is refused in the frontend',
    applies: (row, expected) =>
      row.product?.code === 'context_length_exceeded' ||
      expected.worker.some(({ prompt }) => typeof prompt === 'string' && tokensOf(prompt) >= contextOf(row)),
    rewrite: (expected, row) =>
      refuseWith(expected, row, {
        status: row.product?.status ?? 400,
        message: "This model's maximum context length is",
        told: textWith(`maximum context length is ${contextOf(row)} tokens`),
        code: 'context_length_exceeded',
        param: isChat(row) ? 'messages' : isCompletions(row) ? 'prompt' : 'input',
      }),
  },
  {
    why: 'the form of the answer depends only on the request itself',
    applies: (row) => row.product !== undefined && row.product.code !== 'context_length_exceeded',
    rewrite: (expected, row) => {
      const { status = 400, code = '' } = row.product ?? {};
      refuseWith(expected, row, { status, code, message: '', told: new Matcher('a text', (text) => `${text}` !== '') });
    },
  },
  {
    why: 'a suffix is refused, because no engine here fills in the middle',
    applies: (row) =>
      isCompletions(row) && typeof requestBody(row).suffix === 'string' && requestBody(row).suffix !== '',
    rewrite: (expected, row) =>
      refuseWith(expected, row, {
        status: 400,
        code: 'unsupported_parameter',
        param: 'suffix',
        message: '`suffix` is not supported',
      }),
  },
  {
    why: 'an unsupported request is a mistake of the client, because clients retry after a 501',
    applies: (row) => row.status === 501,
    rewrite: (expected, row) => {
      const { message } = row.body as { readonly message: string };
      const [, param] = /`([\w.]+)/.exec(message) ?? [];
      refuseWith(expected, row, {
        status: 400,
        code: 'unsupported_parameter',
        message: message.replace(/^Validation: /, ''),
        ...(param === undefined ? {} : { param }),
      });
    },
  },
  {
    why: 'the refusal of an unreadable file names the formats that can be read',
    applies: (row) => row.id === 'chat.msg.file' || row.id === 'rsp.in.file',
    rewrite: (expected, row) => {
      const { param } =
        row.id === 'rsp.in.file'
          ? { param: 'input[0].content[0].file_id' }
          : { param: 'messages[0].content[0].file.file_id' };
      refuseWith(expected, row, {
        status: 400,
        code: 'invalid_value',
        param,
        message: '',
        told: textWith('send the content as file_data'),
      });
    },
  },
  {
    why: 'required taints filter in every router mode; 1.6.1 applies them only in kv mode',
    applies: (row) => row.status === 200 && taintsOf(row).length > 0,
    rewrite: (expected, row) => refuseWith(expected, row, { status: 503, message: 'Service temporarily unavailable' }),
  },
  {
    why: 'a worker that sends nothing is a failure for a unary request',
    applies: (row) => {
      const { script } = row;
      const isSilent = script?.steps.length === 0 && script.finish === null && script.raise === undefined;
      return isSilent && row.frames === undefined && row.status === 200;
    },
    rewrite: (expected, row) => failWith(expected, row, { status: 500, message: 'Internal server error' }),
  },
  {
    why: 'a worker that is silent for too long fails that request, but stays in service for others',
    applies: (row) =>
      row.server === 'env2' &&
      row.status === 503 &&
      isRecordedError(row.body) &&
      /is not ready/.test(row.body.message) &&
      row.served?.needs_prefill_peer !== true,
    rewrite: (expected, row) => {
      failWith(expected, row, { status: 504, message: 'Request deadline exceeded' });
      expected.worker = [usualRequest(row)];
    },
  },
  {
    why: 'echo repeats the prompt; 1.6.1 accepts the field and ignores it',
    applies: (row) => isCompletions(row) && requestBody(row).echo === true,
    rewrite: (expected, row) => {
      const seen = new Set<unknown>();
      for (const choice of choicesOf(expected)) {
        if (!seen.has(choice.index)) choice.text = String(requestBody(row).prompt) + String(choice.text);
        seen.add(choice.index);
      }
    },
  },
  {
    why: 'completions without alternatives have an empty list in both modes, also for the end token',
    applies: (row) => isCompletions(row) && requestBody(row).logprobs === 0,
    rewrite: (expected) => {
      for (const { logprobs } of choicesOf(expected)) if (logprobs != null) (logprobs as Body).top_logprobs = [];
    },
  },
  {
    why: 'each input of an embeddings request is a separate request to the engine',
    applies: (row) => Array.isArray(requestBody(row).input) && isEmbeddings(row),
    rewrite: (expected, row) => {
      const input = requestBody(row).input as readonly unknown[];
      const count = typeof input[0] === 'number' ? 1 : input.length;
      if (expected.worker[0] !== undefined) expected.worker = Array(count).fill(expected.worker[0]);
    },
  },
];

/** Bounds the tokens. It applies after every other difference in the worker's request is known. */
export const BOUNDED: Difference = {
  why: 'absent max_tokens becomes the rest of the context, and a larger value is reduced to it',
  applies: (row, expected) => expected.worker.length > 0 && !isEmbeddings(row),
  rewrite: (expected, row) => {
    for (const { prompt, prompt_embeds: embeds, stop_conditions: stop } of expected.worker) {
      // without a prompt, or with one of unknown length
      if (embeds !== undefined || stop === undefined || prompt === undefined) continue;
      (stop as Body).max_tokens = leftFor(prompt, (stop as Body).max_tokens, contextOf(row));
    }
  },
};

function leftFor(prompt: unknown, asked: unknown, context: number): unknown {
  const most = typeof asked === 'number' ? asked : Number.POSITIVE_INFINITY;
  if (typeof prompt === 'string') return Math.min(most, context - tokensOf(prompt));
  return new Matcher('what is left', (value) => typeof value === 'number' && value > 0 && value < context);
}
