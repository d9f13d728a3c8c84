import type { ModelCard } from '../../discovery/index.ts';

/** Engine that renders the chats of its models, and parses their answers, in place of this process. */
export type ChatProcessor = 'vllm' | 'sglang';

/**
 * Returns why a model's chats cannot be left to the engine of a worker with that card (`--dyn-chat-processor`);
 * undefined if they can, or if the worker takes no chats. Workers that take only bodies need not name their engine,
 * because they get every chat as a body.
 *
 * | Card | served |
 * | --- | --- |
 * | no chats, or a prefill worker | yes |
 * | `engine_chats` names the processor | yes, if one worker computes prompt and answer |
 * | `engine_chats` names another engine | no |
 * | no `engine_chats`, takes bodies | yes |
 * | no `engine_chats`, takes tokens | no |
 */
export function chatRefusal(card: ModelCard, processor: ChatProcessor | undefined): string | undefined {
  if (processor === undefined || !card.model_type.includes('Chat')) return undefined;
  const { engine_chats: engine } = card.runtime_config;
  if (engine !== undefined && engine !== processor) {
    return `its workers run ${engine}, and this frontend leaves chats to ${processor} (--dyn-chat-processor)`;
  }
  if (card.model_input !== 'Tokens') return undefined;
  if (engine === undefined) {
    return (
      `its workers do not pass chats to ${processor}'s own chat endpoint, to which this frontend leaves them ` +
      '(--dyn-chat-processor)'
    );
  }
  if (card.worker_type === 'aggregated') return undefined;
  return `its workers divide prefill and decode, and ${processor}'s own chat endpoint does both (--dyn-chat-processor)`;
}

/** Whether chats go as bodies to workers that take everything else as tokens. */
export function passesChats(card: ModelCard, processor: ChatProcessor | undefined): boolean {
  return processor !== undefined && card.model_input === 'Tokens' && card.runtime_config.engine_chats === processor;
}
