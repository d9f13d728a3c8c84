import { describe, expect, it } from 'vitest';
import type { ModelCard } from '../../../../shared/discovery/index.ts';
import { cardRefusal } from '../../../../shared/frontends/process/card-refusal.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';

type Card = Partial<Omit<ModelCard, 'runtime_config'>> & ModelCard['runtime_config'];

function cardOf({
  display_name = 'm',
  model_type = ['Chat'],
  model_input = 'Tokens',
  worker_type = 'aggregated',
  ...runtime_config
}: Card): ModelCard {
  return { display_name, model_type, model_input, worker_type, runtime_config } as unknown as ModelCard;
}

describe('the version of tool-call parsers', () => {
  const parsedBy = (display_name: string, tool_call_parser?: string) =>
    cardOf({ display_name, ...(tool_call_parser === undefined ? {} : { tool_call_parser }) });

  it('leaves out models whose parser has no second generation, and says so once a name', () => {
    const { logger, lines } = captureLogger();
    const refusalOf = cardRefusal({ chatProcessor: 'dynamo', parserVersion: '2' }, logger);
    for (const spelling of [undefined, 'qwen3_coder', 'kimi_k25', 'deepseek-v4', 'deepseekv4', 'qwen3_xml', 'ling3']) {
      expect(refusalOf(parsedBy('s', spelling)), spelling).toBeUndefined();
    }
    const reason = (parser: string) => `its tool-call parser ${parser} has no version 2 (DYN_PARSER_VERSION)`;
    expect([refusalOf(parsedBy('d', 'hermes')), refusalOf(parsedBy('d', 'hermes'))]).toEqual([
      reason('hermes'),
      reason('hermes'),
    ]);
    expect(refusalOf(parsedBy('e', 'minimax_m2'))).toBe(reason('minimax_m2'));
    expect(lines.map(({ level, message, fields }) => [level, message, fields])).toEqual([
      ['warn', 'model is not served', { model: 'd', reason: reason('hermes') }],
      ['warn', 'model is not served', { model: 'e', reason: reason('minimax_m2') }],
    ]);
    for (const parserVersion of ['auto', '1'] as const) {
      expect(cardRefusal({ chatProcessor: 'dynamo', parserVersion }, logger)(parsedBy('d', 'hermes'))).toBeUndefined();
    }
  });
});

describe('chats that are left to an engine', () => {
  const OTHER = /^its workers run (\w+), and this frontend leaves chats to vllm \(--dyn-chat-processor\)$/;
  const NONE = /^its workers do not pass chats to vllm's own chat endpoint, .*\(--dyn-chat-processor\)$/;
  const DIVIDED = /^its workers divide prefill and decode, .*\(--dyn-chat-processor\)$/;

  it.each<[string, Card, RegExp | undefined]>([
    ['vLLM', { engine_chats: 'vllm' }, undefined],
    ['vLLM that takes only bodies', { engine_chats: 'vllm', model_input: 'Text' }, undefined],
    ['a server of any kind that takes only bodies', { model_input: 'Text' }, undefined],
    ['SGLang', { engine_chats: 'sglang' }, OTHER],
    ['SGLang that takes only bodies', { engine_chats: 'sglang', model_input: 'Text' }, OTHER],
    ['a worker that only takes tokens', {}, NONE],
    ['a decode worker', { engine_chats: 'vllm', worker_type: 'decode' }, DIVIDED],
    ['a prefill worker', { model_type: ['Prefill'], worker_type: 'prefill' }, undefined],
    ['a worker of embeddings', { model_type: ['Embedding'] }, undefined],
  ])('at %s', (_, card, refused) => {
    const { logger } = captureLogger();
    const reason = cardRefusal({ chatProcessor: 'vllm', parserVersion: 'auto' }, logger)(cardOf(card));
    if (refused === undefined) expect(reason).toBeUndefined();
    else expect(reason).toMatch(refused);
    expect(cardRefusal({ chatProcessor: 'dynamo', parserVersion: 'auto' }, logger)(cardOf(card))).toBeUndefined();
  });
});
