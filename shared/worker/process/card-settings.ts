import type { Settings } from '../../config/index.ts';
import type { CardSettings } from '../index.ts';

/** What the operator says on the card: how the model's text is to be read, what is offered of it and which prefixes find it. */
export function cardSettings(settings: Settings<'worker'>): CardSettings {
  const { toolCallParser, reasoningParser, defaultThinkingMode, excludeToolsWhenToolChoiceNone: excludes } = settings;
  return {
    ...(toolCallParser === undefined ? {} : { tool_call_parser: toolCallParser }),
    ...(reasoningParser === undefined ? {} : { reasoning_parser: reasoningParser }),
    ...(defaultThinkingMode === undefined ? {} : { default_thinking_mode: defaultThinkingMode }),
    ...(excludes ? {} : { exclude_tools_when_tool_choice_none: false }),
    ...(settings.stableRoutingId === undefined ? {} : { stable_routing_id: settings.stableRoutingId }),
    endpointTypes: settings.endpointTypes,
  };
}
