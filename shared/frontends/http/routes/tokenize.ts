import * as z from 'zod';
import { endOfTurn } from '../../../concurrency/index.ts';
import { ServeError } from '../../../errors/index.ts';
import {
  decodeChat,
  type GenerationRequest,
  invalidValue,
  parseChatBody,
  requireShape,
  u32,
} from '../../../protocol/index.ts';
import { decodeContext, modelsShown, requireAllowed, requireService } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import type { BodyRoute } from '../route.ts';
import { readJson, warnOfLeftOut } from '../serve-inference.ts';
import { sendJson } from '../sinks/send.ts';

/** Returns a JSON Schema that says that a field is present. */
const isGiven = (name: string) => ({ required: [name], properties: { [name]: { not: { type: 'null' } } } });

/** Body of `POST /tokenize`, as in vLLM: a prompt, or a chat. The schema ignores other root keys, as vLLM does. */
const tokenizeSchema = z
  .looseObject({
    model: z.string().nullish(),
    prompt: z.string().nullish(),
    messages: z.array(z.looseObject({})).nullish(),
    add_special_tokens: z.boolean().nullish(),
    return_token_strs: z.boolean().nullish(),
    add_generation_prompt: z.boolean().nullish(),
    continue_final_message: z.boolean().nullish(),
    chat_template_kwargs: z.looseObject({}).nullish(),
    tools: z.array(z.looseObject({})).nullish(),
  })
  .meta({ oneOf: ['prompt', 'messages'].map(isGiven) });
type TokenizeBody = z.infer<typeof tokenizeSchema>;

/** Body of `POST /detokenize`. */
const detokenizeSchema = z.looseObject({ model: z.string().nullish(), tokens: z.array(u32) });

/** Tokens that become text between two turns of the event loop. */
const SLICE_TOKENS = 4096;

/** `POST /tokenize`: returns the tokens of a prompt, or of a chat that the model's template has rendered. */
async function serveTokenize(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  requireService(deps);
  const json = await readJson(exchange, deps);
  const body: TokenizeBody = requireShape(tokenizeSchema, json);
  await deps.lookUp?.(body.model ?? undefined);
  const model = modelOf(deps, exchange, body.model);
  const request = requestOf(body, model, deps, exchange);
  const addsSpecialTokens = body.add_special_tokens ?? body.messages == null;
  const { tokenIds, contextLength, spelled, workerSet } = await deps.pipeline.tokenize(request, addsSpecialTokens);
  await endOfTurn();
  const strings = body.return_token_strs === true ? [...tokenIds].map((id) => spelled(id) ?? '') : null;
  const tokens = [...tokenIds];
  sendJson(exchange, 200, {
    count: tokens.length,
    max_model_len: contextLength,
    tokens,
    token_strs: strings,
    worker_set: workerSet,
  });
}

/** `POST /detokenize`: returns the text of tokens, special ones included. */
async function serveDetokenize(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  requireService(deps);
  const body = requireShape(detokenizeSchema, await readJson(exchange, deps));
  await deps.lookUp?.(body.model ?? undefined);
  const model = modelOf(deps, exchange, body.model);
  const { tokenizer, workerSet } = await deps.pipeline.vocabularyOf(model);
  const outside = body.tokens.find((id) => id >= tokenizer.vocabSize);
  if (outside !== undefined) {
    throw invalidValue(`token id ${outside} is outside the vocabulary of ${tokenizer.vocabSize} entries`, 'tokens');
  }
  const detokenizer = tokenizer.createDetokenizer([], { skipSpecialTokens: false });
  const texts: string[] = [];
  for (const [at, id] of body.tokens.entries()) {
    if (at % SLICE_TOKENS === SLICE_TOKENS - 1) await endOfTurn();
    texts.push(detokenizer.push(id));
  }
  sendJson(exchange, 200, { prompt: texts.join('') + detokenizer.flush(), worker_set: workerSet });
}

/** Returns the requested model, or the only one. @throws ServeError */
function modelOf(deps: HttpAppDeps, exchange: HttpExchange, asked: string | null | undefined): string {
  if (asked == null) {
    const names = new Set(modelsShown(deps, exchange).map(({ primaryName }) => primaryName));
    const [only] = names;
    if (names.size === 1 && only !== undefined) return only;
    throw new ServeError('missing_required_parameter', `\`model\` is required where ${names.size} models are served`, {
      param: 'model',
    });
  }
  requireAllowed(exchange, asked, deps.pipeline.requestable.find(asked)?.primaryName);
  return asked;
}

function requestOf(body: TokenizeBody, model: string, deps: HttpAppDeps, exchange: HttpExchange): GenerationRequest {
  const { prompt, messages, chat_template_kwargs, tools } = body;
  if ((prompt == null) === (messages == null)) throw invalidValue('Give one of `prompt` and `messages`', 'prompt');
  if (body.chat_template != null) {
    throw invalidValue("`chat_template` is not taken from clients: the model's own is used", 'chat_template');
  }
  const continues = body.continue_final_message === true;
  const chat = {
    model,
    messages: messages ?? [{ role: 'user', content: '' }],
    ...(tools == null ? {} : { tools }),
    ...(chat_template_kwargs == null ? {} : { chat_template_kwargs }),
    add_generation_prompt: body.add_generation_prompt ?? !continues,
    continue_final_message: continues,
  };
  const context = decodeContext({ deps, exchange }, model);
  const { request } = decodeChat(parseChatBody({ value: chat }), context);
  warnOfLeftOut(exchange, context.leftOut);
  return prompt == null ? request : { ...request, prompt: { kind: 'raw', text: prompt } };
}

export const tokenize: BodyRoute = {
  serve: serveTokenize,
  body: {
    name: 'TokenizeRequest',
    schema: tokenizeSchema,
    example: ({ Chat: model }) => ({ model, prompt: 'What are you?' }),
  },
};

export const detokenize: BodyRoute = {
  serve: serveDetokenize,
  body: {
    name: 'DetokenizeRequest',
    schema: detokenizeSchema,
    example: ({ Chat: model }) => ({ model, tokens: [1, 2, 3] }),
  },
};
