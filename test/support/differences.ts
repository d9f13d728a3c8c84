import {
  type Body,
  byId,
  byPrompt,
  type Chunk,
  CLASSES,
  chunksOf,
  type Difference,
  envelope,
  errorFrame,
  failWith,
  includesUsage,
  isBatch,
  isChat,
  isCompletions,
  isOverloadBody,
  isRecordedError,
  messageLike,
  replaceReplacementBytes,
  requestBody,
  retyped,
  splitRole,
  succeed,
  tokensOf,
} from './dynamo-http/expectation.ts';
import { anything, Matcher, textWith } from './dynamo-http/match.ts';
import { MESSAGES_DIFFERENCES } from './dynamo-http/messages-differences.ts';
import { RESPONSES_DIFFERENCES } from './dynamo-http/responses-differences.ts';
import { TOOLS_DIFFERENCES } from './dynamo-http/tools-differences.ts';
import { serveVideoPath } from './dynamo-http/video-path.ts';

/** Rows whose worker is silent for longer than a comment or the head may wait. */
export const IDLE_ROWS = /^(e2\.(keepalive|timeout)|e1\.peek\.slow)$/;

/** Applied in this order. */
export const DIFFERENCES: readonly Difference[] = [
  {
    authority: 'ruling 29',
    what: 'a prompt at or over the context is refused in the frontend',
    applies: (row) => row.product?.code === 'context_length_exceeded',
    rewrite: (expected) => {
      failWith(expected, 400, textWith('maximum context length is'));
      expected.worker = [];
    },
  },
  {
    authority: 'ruling 29',
    what: 'absent max_tokens is filled with what is left of the context, a larger one is clamped to it',
    applies: (_row, expected) => expected.worker !== undefined,
    rewrite: (expected, row) => {
      for (const seen of expected.worker ?? []) {
        if (seen.prompt_embeds !== undefined || typeof seen.prompt !== 'string') continue;
        if (seen.stop_conditions === undefined) continue; // pictures have no length
        const context = requestBody(row).model === 'ctx64' ? 64 : 4096;
        const stop = seen.stop_conditions as Body;
        const asked = typeof stop.max_tokens === 'number' ? stop.max_tokens : Number.POSITIVE_INFINITY;
        stop.max_tokens = new Matcher('the smaller of what was asked and what is left', (value) => {
          const left = context - tokensOf(String(seen.prompt));
          return value === Math.min(asked, left);
        });
      }
    },
  },
  {
    authority: 'ruling 47',
    what: 'top_p 0 is greedy; n > 1 goes with temperature 0',
    applies: byId(/^(chat\.p\.top_p\.1|cmp\.n2t0|chat\.p\.n2\.t0)$/),
    rewrite: succeed,
  },
  {
    authority: 'ruling 11',
    what: 'published keys that change nothing about the answer are accepted',
    applies: (row) => /`(safety_identifier|verbosity)`/.test(String((row.body as Body | undefined)?.message)),
    rewrite: succeed,
  },
  {
    authority: 'ruling 12',
    what: 'session and agent keys of nvext are known',
    applies: byId(/^chat\.p\.nvext\.(13|14)$/),
    rewrite: succeed,
  },
  {
    authority: 'Product rule (http-api.md 12.1)',
    what: 'sampling fields are still read in nvext',
    applies: byId(/^chat\.p\.nvext\.(15|16|17)$/),
    rewrite: succeed,
  },
  {
    authority: 'Product rule (http-api.md 12.1)',
    what: 'greed_sampling sends temperature 0',
    applies: byId(/^chat\.p\.nvext\.5$/),
    rewrite: (expected) => {
      for (const seen of expected.worker ?? []) (seen.sampling_options as Body).temperature = 0;
    },
  },
  {
    authority: 'http-api.md 3.1 (logit_bias is an OpenAI parameter that is honoured, ruling 11)',
    what: 'logit_bias reaches the worker; 1.6.1 checks and drops it',
    applies: byId(/^chat\.p\.logit_bias\.0$/),
    rewrite: (expected) => {
      for (const seen of expected.worker ?? []) (seen.sampling_options as Body).logit_bias = { 5: 100 };
    },
  },
  {
    authority: 'http-api.md 3.1 (detokenize and allowed_token_ids are passed to the worker)',
    what: 'they stand in sampling_options instead of extra_args',
    applies: byId(/\.(detokenize|allowed_token_ids)(\.0)?$/),
    rewrite: (expected, row) => {
      const { detokenize, allowed_token_ids } = requestBody(row);
      for (const seen of expected.worker ?? []) {
        Object.assign(seen.sampling_options as Body, { detokenize, allowed_token_ids });
      }
    },
  },
  {
    authority: 'Product rule (http-api.md 4.1)',
    what: 'a suffix is refused: nothing here fills in the middle',
    applies: (row) =>
      isCompletions(row) && typeof requestBody(row).suffix === 'string' && requestBody(row).suffix !== '',
    rewrite: (expected) => {
      failWith(expected, 501, textWith('suffix'));
      expected.worker = [];
    },
  },
  {
    authority: 'Product rule (http-api.md 4.1)',
    what: 'echo repeats the prompt',
    applies: (row) => isCompletions(row) && requestBody(row).echo === true,
    rewrite: (expected, row) => {
      const prompt = String(requestBody(row).prompt);
      const first = chunksOf(expected)[0]?.choices?.[0] ?? (expected.body as { choices: Body[] }).choices[0];
      if (first !== undefined) first.text = prompt + String(first.text);
    },
  },
  {
    authority: 'Product rule (http-api.md 3.2)',
    what: 'a worker that sends nothing is a failure for a unary request',
    applies: byId(/nochunks\.u$/),
    rewrite: (expected) => failWith(expected, 500, 'Internal server error'),
  },
  {
    authority: 'Product rule (http-api.md 3.4)',
    what: 'log probabilities carry the true bytes of a token that is a part of a character',
    applies: (row) => requestBody(row).logprobs === true,
    rewrite: (expected) => replaceReplacementBytes(expected),
  },
  {
    authority: 'http-api.md 4.2 (the same object in both modes), ruling 47',
    what: 'completions without alternatives have an empty list, also for the end token',
    applies: byId(/^cmp\.lp0\./),
    rewrite: (expected) => {
      const choices = [
        ...chunksOf(expected).flatMap((chunk) => chunk.choices ?? []),
        ...((expected.body as { choices?: Body[] } | undefined)?.choices ?? []),
      ];
      for (const choice of choices) {
        const logprobs = choice.logprobs as { top_logprobs: unknown[] } | undefined;
        if (logprobs !== undefined) logprobs.top_logprobs = [];
      }
    },
  },
  {
    authority: 'ruling 15',
    what: 'the `_ENV` names set the paths, so the rows that show them ignored belong to a run without',
    applies: byId(/^e1\.(a\.|chat\.a$|cmp\.a$)/),
    rewrite: succeed,
  },
  {
    authority: 'http-api.md 12.1 (worker filter)',
    what: 'required taints filter in every router mode',
    applies: byId(/^chat\.p\.nvext\.19$/),
    rewrite: (expected) => {
      failWith(expected, 400, textWith('Invalid request'));
      expected.worker = [];
    },
  },
  {
    authority: 'ruling 47',
    what: "a worker's InvalidArgument is 400 with its own message, which a Python handler's hides in 1.6.1 (http-api.md 2.4)",
    applies: (row) =>
      /^(ValueError|TypeError|InvalidArgument)$/.test(row.worker_script?.raise?.type ?? '') ||
      [400, 422].includes(row.worker_script?.raise?.code ?? 0),
    rewrite: (expected, row) => {
      const frames = expected.frames ?? [];
      const hasText = frames.some((frame) => (frame as { data?: Chunk }).data?.choices !== undefined);
      const message = row.worker_script?.raise?.msg ?? '';
      if (hasText) frames.splice(-2, 1, { data: { error: { message, code: 400 } } });
      else failWith(expected, 400, message);
    },
  },
  {
    authority: 'ruling 1 and ruling 2 (error table)',
    what: "a worker's failure keeps its class: lost and unavailable are 503, cancelled 499, bad gateway 502, overload 503",
    applies: (row) => row.worker_script?.raise !== undefined,
    rewrite: (expected, row) => {
      const failure = CLASSES[String(row.worker_script?.raise?.code ?? row.worker_script?.raise?.type)];
      if (failure === undefined) return;
      const frames = expected.frames ?? [];
      const hasText = frames.some((frame) => (frame as { data?: Chunk }).data?.choices !== undefined);
      if (hasText) frames.splice(-2, 1, { data: { error: { message: failure.message, code: failure.status } } });
      else failWith(expected, failure.status, failure.message);
    },
  },
  {
    authority: 'ruling 3',
    what: 'a failure before the first token has its HTTP status, also on a stream',
    applies: (_row, expected) => expected.frames !== undefined && errorFrame(expected.frames[0]) !== undefined,
    rewrite: (expected) => {
      const failure = errorFrame(expected.frames?.[0]);
      if (failure !== undefined) failWith(expected, failure.code, failure.message);
    },
  },
  {
    authority: 'ruling 1',
    what: 'errors inside a stream have the envelope of all others',
    applies: (_row, expected) => (expected.frames ?? []).some((frame) => errorFrame(frame) !== undefined),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).map((frame) => {
        const failure = errorFrame(frame);
        return failure === undefined ? frame : { data: retyped(envelope(failure.code, failure.message), failure) };
      });
    },
  },
  {
    authority: 'Product rule (http-api.md 1)',
    what: 'a route that no model has switched on answers 404 with a body',
    applies: byId(/^empty\.(chat|cmp|img|chat\.get)$/),
    rewrite: (expected, row) => {
      if (row.id === 'empty.chat.get') failWith(expected, 405, textWith('not allowed'));
      else failWith(expected, 404, 'Model not found');
      if (row.id === 'empty.chat.get') expected.headers.allow = 'POST';
    },
  },
  {
    authority: 'ruling 1 (error table: 405)',
    what: 'a method that a path does not take is told in the envelope',
    applies: (row) => row.status === 405 && row.text === '',
    rewrite: (expected) => {
      const { allow } = expected.headers;
      failWith(expected, 405, textWith('not allowed'));
      expected.headers.allow = allow;
    },
  },
  {
    authority: 'ruling 1',
    what: 'the error body is nested, its code a string, its message without `Validation: `',
    applies: (_row, expected) => isRecordedError(expected.body),
    rewrite: (expected) => {
      if (!isRecordedError(expected.body)) return;
      const { message, code } = expected.body;
      expected.body = retyped(envelope(code, messageLike(message)), { message });
    },
  },
  {
    authority: 'ruling 2',
    what: 'overload is told with Retry-After',
    applies: (_row, expected) => isOverloadBody(expected.body),
    rewrite: (expected) => {
      expected.headers['retry-after'] = '1';
    },
  },
  {
    authority: 'ruling 47',
    what: 'chat chunks say `usage: null` when usage comes at the end',
    applies: (row, expected) => isChat(row) && expected.frames !== undefined && includesUsage(row),
    rewrite: (expected) => {
      for (const chunk of chunksOf(expected)) if (chunk.usage === undefined) chunk.usage = null;
    },
  },
  {
    authority: 'ruling 5',
    what: 'a chunk that only says the role comes first for each choice',
    applies: (row, expected) => isChat(row) && chunksOf(expected).length > 0,
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).flatMap((frame) => splitRole(frame));
    },
  },
  {
    authority: 'ruling 14',
    what: 'the memory plane has its own transport',
    applies: (row) => row.request.path.endsWith('/health'),
    rewrite: (expected) => {
      const body = expected.body as { instances?: Body[]; instances_note?: unknown } | undefined;
      if (body?.instances === undefined) return;
      delete body.instances_note;
      for (const instance of body.instances) instance.transport = anything;
    },
  },
  {
    authority: 'http-api.md 4.3 (the streams of a batch are interleaved)',
    what: 'in which order the prompts of a batch speak is a matter of timing',
    applies: (row, expected) => isBatch(row) && expected.frames !== undefined,
    rewrite: (expected) => {
      expected.frames?.sort(byPrompt);
    },
  },
  {
    authority: 'http-api.md 14.2 (stop strings are looked for token by token)',
    what: 'an output that begins before min_tokens and ends after it is searched from there on; 1.6.1 lets it pass whole',
    applies: byId(/^chat\.stop\.min\./),
    rewrite: (expected) => {
      const usage = { prompt_tokens: 43, completion_tokens: 8, total_tokens: 51 };
      const body = expected.body as { choices: { message: Body }[]; usage: unknown } | undefined;
      if (body?.choices[0] !== undefined) {
        body.choices[0].message.content = 'aENDb';
        body.usage = usage;
      }
      for (const chunk of chunksOf(expected)) {
        const choice = chunk.choices?.[0];
        if (chunk.usage !== null) chunk.usage = usage;
        if ((choice?.delta as Body | undefined)?.content !== 'bEND') continue;
        Object.assign(choice as Body, { delta: { content: 'b' }, finish_reason: 'stop' });
      }
      expected.frames?.splice(3, 1); // the finish has its own chunk in the record
    },
  },
  {
    authority: 'ruling 48 (a frame for each engine output) and runtime-and-workers.md 2.6 (TOKENS carries tokens)',
    what: 'an output without a token does not travel, so it opens no choice',
    applies: byId(/^e1\.peek\.slow$/),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).slice(1);
    },
  },
  {
    authority: 'http-api.md 4.3 (each prompt of a batch is an engine request of its own)',
    what: 'so is each input of an embeddings request',
    applies: byId(/^emb\.01$/),
    rewrite: (expected) => {
      expected.worker = [...(expected.worker ?? []), ...(expected.worker ?? [])];
    },
  },
  {
    authority: "ruling 1 (wording of a parser library) and Product rule (http-api.md 2.1: the route's own envelope)",
    what: 'a body that cannot be read is told in JSON, in our words',
    applies: (row) => /^(ops|body)\.bt\./.test(row.id) && row.status !== 200,
    rewrite: (expected) => {
      const recorded = (expected.body as { error?: string } | undefined)?.error;
      if (recorded !== undefined) expected.body = { error: messageLike(recorded) };
      if (expected.text === undefined) return;
      expected.headers['content-type'] = 'application/json';
      expected.body = { error: textWith(expected.status === 415 ? 'Content-Type' : 'JSON body') };
      delete expected.text;
    },
  },
  {
    authority: 'http-api.md 10.3 (one entry per discovered model)',
    what: 'models of embeddings have an entry as well',
    applies: byId(/^ops\.bt\.get$/),
    rewrite: (expected) => {
      const unset = {
        model: 'emb',
        active_decode_blocks_threshold: null,
        active_prefill_tokens_threshold: null,
        active_prefill_tokens_threshold_frac: null,
      };
      (expected.body as { thresholds: unknown[] }).thresholds.splice(1, 0, unset);
    },
  },
  {
    authority: 'http-api.md 1 (the product may offer /clear_kv_blocks)',
    what: 'it is served, and answers that there is no worker here that could clear anything',
    applies: byId(/^ops\.clear/),
    rewrite: (expected) => {
      succeed(expected);
      expected.body = { message: 'No active worker groups found' };
    },
  },
  {
    authority: 'http-api.md 10.4 (schema depth is free)',
    what: "the document is our own; that it is valid and complete is its own test's to say",
    applies: (row) => row.request.path === '/openapi.json' && row.status === 200,
    rewrite: (expected) => {
      expected.body = anything;
    },
  },
  {
    authority: '(seed) http-api.md 1 (paths of the videos routes)',
    what: "the seed's paths are served like their short aliases",
    applies: (row) => /^\/v1\/videos\/generations/.test(row.request.path),
    rewrite: (expected, row) => serveVideoPath(expected, row),
  },
  {
    authority: 'http-api.md 2.5 (comments while idle)',
    what: 'how many comments fit into a silence is a matter of timing',
    applies: byId(IDLE_ROWS),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).filter((frame) => (frame as { comment?: string }).comment !== '');
    },
  },
  {
    authority: 'http-api.md 17.1 (1.6.1 takes the silent worker out of service), ruling 37 (it migrates)',
    what: 'with no other worker the request that meets a silent one fails with the time-out itself',
    applies: byId(/^e2\.timeout\.u$/),
    rewrite: (expected) => failWith(expected, 504, 'Request deadline exceeded'),
  },
  ...TOOLS_DIFFERENCES,
  ...MESSAGES_DIFFERENCES,
  ...RESPONSES_DIFFERENCES,
  {
    authority: 'order of authority 5 (a length that nobody knows is not 0)',
    what: 'the context of a model is absent where it is unknown',
    applies: (row, expected) => /^\/v1\/models(\?|$)/.test(row.request.path) && expected.status === 200,
    rewrite: (expected) => {
      for (const model of (expected.body as { data: Body[] }).data) {
        for (const key of ['context_window', 'max_input_tokens']) if (model[key] === 0) delete model[key];
      }
    },
  },
  {
    authority: 'order of authority 5 (SDKs try again when an answer says when)',
    what: 'a model that is not ready says when to try again',
    applies: (_row, expected) =>
      expected.status === 503 && / is not ready to serve /.test(JSON.stringify(expected.body)),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'retry-after': '5' };
    },
  },
  {
    authority: 'order of authority 5 (users of the official SDKs expect an id on every answer)',
    what: 'an answer to a client that names no request has an id made here',
    applies: (row) => row.status !== null && !(row.request.headers ?? []).some(([name]) => name === 'x-request-id'),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'x-request-id': 'UUID' };
    },
  },
];
