import { ConfigError, type Settings } from '../../../shared/config/index.ts';
import { findReasoningFormat } from '../../../shared/parsers/reasoning/index.ts';
import { describeToolCallParser } from '../../../shared/parsers/tool-calls/index.ts';
import type { Logger } from '../../../shared/telemetry/index.ts';
import type { CardSettings } from '../../../shared/worker/index.ts';

type ReadingSettings = Pick<
  Settings<'worker'>,
  | 'toolCallParser'
  | 'reasoningParser'
  | 'defaultThinkingMode'
  | 'excludeToolsWhenToolChoiceNone'
  | 'endpointTypes'
  | 'stableRoutingId'
>;

/**
 * What the operator says on the card: how the model's text is to be read (parsers.md, sections 1 and 2), what is offered of it
 * and under which name prefixes find the worker.
 * @throws ConfigError when a named parser has no published grammar: a worker that no one can read must not register
 */
export function cardSettings(settings: ReadingSettings, logger: Logger): CardSettings {
  const { toolCallParser, reasoningParser, defaultThinkingMode, excludeToolsWhenToolChoiceNone: excludes } = settings;
  if (toolCallParser !== undefined) checkToolCallParser(toolCallParser);
  if (reasoningParser !== undefined) checkReasoningParser(reasoningParser, logger);
  return {
    ...(toolCallParser === undefined ? {} : { tool_call_parser: toolCallParser }),
    ...(reasoningParser === undefined ? {} : { reasoning_parser: reasoningParser }),
    ...(defaultThinkingMode === undefined ? {} : { default_thinking_mode: defaultThinkingMode }),
    ...(excludes ? {} : { exclude_tools_when_tool_choice_none: false }),
    ...(settings.stableRoutingId === undefined ? {} : { stable_routing_id: settings.stableRoutingId }),
    endpointTypes: settings.endpointTypes,
  };
}

function checkToolCallParser(name: string): void {
  const description = describeToolCallParser(name);
  if (description.kind === 'refused') throw new ConfigError([`--dyn-tool-call-parser: ${description.message}`]);
}

function checkReasoningParser(name: string, logger: Logger): void {
  const found = findReasoningFormat(name);
  if (found.kind === 'refused') throw new ConfigError([`--dyn-reasoning-parser: ${found.reason}`]);
  if (found.kind === 'fallback') logger.warn(found.warning);
}
