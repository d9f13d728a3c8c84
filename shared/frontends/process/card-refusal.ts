import type { EdgeSettings } from '../../config/index.ts';
import type { ModelCard } from '../../discovery/index.ts';
import { hasParserOfVersion } from '../../parsers/index.ts';
import { type ChatProcessor, chatRefusal } from '../../pipeline/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Refusals that are logged at most, one for each model and reason. */
const LOGGED_MAX = 256;

/** Returns the engine to which this process leaves chats; undefined if it renders and parses them itself. */
export function processorOf({ chatProcessor }: Pick<EdgeSettings, 'chatProcessor'>): ChatProcessor | undefined {
  return chatProcessor === 'dynamo' ? undefined : chatProcessor;
}

/**
 * Returns a check of cards, which gives the reason if a model is not served: its tool-call parser has no such version
 * (`DYN_PARSER_VERSION`), or its chats cannot be left to its engine (`--dyn-chat-processor`). It logs each refusal
 * once.
 */
export function cardRefusal(
  settings: Pick<EdgeSettings, 'chatProcessor' | 'parserVersion'>,
  log: Logger,
): (card: ModelCard) => string | undefined {
  const { parserVersion: version } = settings;
  const processor = processorOf(settings);
  const logged = new Set<string>();
  return (card) => {
    const { display_name: model, runtime_config: runtime } = card;
    const { tool_call_parser: parser } = runtime;
    const reason = parserRefusal(parser, version) ?? chatRefusal(card, processor);
    if (reason === undefined) return undefined;
    const key = JSON.stringify([model, reason]);
    if (!logged.has(key) && logged.size < LOGGED_MAX) {
      logged.add(key);
      log.warn('model is not served', { model, reason });
    }
    return reason;
  };
}

function parserRefusal(parser: string | undefined, version: EdgeSettings['parserVersion']): string | undefined {
  if (parser === undefined || hasParserOfVersion(parser, version)) return undefined;
  return `its tool-call parser ${parser} has no version ${version} (DYN_PARSER_VERSION)`;
}
