import type { EngineRequest } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';

/** Fields of a chat that constrain its answer, in the words of any engine or client. */
const CONSTRAINTS = ['structured_outputs', 'guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'] as const;

/** Fields that only frontends read, with those above. An engine would ignore them, or refuse the chat. */
const OURS = [
  ...CONSTRAINTS,
  'nvext',
  'guided_decoding_backend',
  'guided_whitespace_pattern',
  'chat_template_args',
] as const;

/**
 * Returns the fields with which a chat goes to the engine's own endpoint: those that only frontends know are left out,
 * and their values stand where the engine looks for them.
 * @param constraint returns the request's constraint in the engine's words
 */
export function chatFields(
  request: EngineRequest,
  constraint: (request: EngineRequest) => UnknownRecord,
): UnknownRecord {
  const body = request.input.kind === 'text' ? request.input.body : {};
  const nvext = asRecord(body.nvext);
  const isConstrained = CONSTRAINTS.some((name) => body[name] != null || nvext?.[name] != null);
  return {
    ...Object.fromEntries(OURS.map((name) => [name, undefined])),
    ...(isConstrained ? constraint(request) : {}),
    ...(nvext === undefined ? {} : atRoot(nvext, body)),
  };
}

/** Returns the settings of `nvext` that engines read at the root of a body. A value at the root wins. */
function atRoot(nvext: UnknownRecord, body: UnknownRecord): UnknownRecord {
  const { greed_sampling: isGreedy, ignore_eos, top_k, repetition_penalty, max_thinking_tokens } = nvext;
  const moved = { ignore_eos, top_k, repetition_penalty, thinking_token_budget: max_thinking_tokens };
  return {
    ...Object.fromEntries(
      Object.entries(moved).filter(([name, value]) => value != null && (body[name] ?? undefined) === undefined),
    ),
    ...(isGreedy === true ? { temperature: 0, top_p: undefined } : {}),
  };
}
