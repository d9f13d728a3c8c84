/**
 * @module config
 * Every flag and variable of the product as one table. From it come parsing and checks (`resolveConfig`), help, the
 * effective settings of a process, and docs/configuration.md. To add a setting, add a row under table/ and read it
 * where it is used. unbuilt.ts lists names that are known and do nothing.
 */
export { isEnough } from './dependencies.ts';
export { forwardSettings, renderConfigurationDocs, renderSettings, renderSettingsJson } from './describe.ts';
export { renderBriefHelp, renderHelp } from './help.ts';
export { hasEffect } from './needs.ts';
export {
  REASONING_PARSER_SPELLINGS,
  type ReasoningParserName,
  TOOL_CALL_PARSER_SPELLINGS,
  TOOL_CALL_PARSERS_WITHOUT_GRAMMAR,
  type ToolCallParserName,
} from './parser-names.ts';
export { ConfigError, type ResolvedConfig, resolveConfig } from './resolve.ts';
export { type Command, PROCESSES, type Process, type Row } from './row.ts';
export { isOfManyMachines, isOfOneProcess } from './table/discovery.ts';
export { START_FACTOR } from './table/host.ts';
export { PLANNER_LAWS } from './table/planner.ts';
export {
  type CallerSettings,
  type EdgeSettings,
  type FleetSettings,
  nameOf,
  type RouterSettings,
  type SettingName,
  type Settings,
  TABLE,
} from './table.ts';
export { homeFolder, stateFolder, USER_SUFFIX } from './user-folders.ts';
export { type HubModel, nameOfHubModel, parseHubModel } from './values/hub-model.ts';
export type { InstancePrice } from './values/instance-price.ts';
export { type FilterLevel, LOG_FILTER_ALLOWED, LOG_LEVELS, parseLogLevels } from './values/log-filter.ts';
export type { PortRange } from './values/numbers.ts';
export type { PlannedModel } from './values/planned-model.ts';
export { hideUrlPassword } from './values/texts.ts';
export type { TokenPrice } from './values/token-price.ts';
export type { Environment } from './values/value-type.ts';
export { hideSecrets } from './values/words.ts';
export { faultOfVariable, machineToCome, rowOfVariable } from './variables.ts';
