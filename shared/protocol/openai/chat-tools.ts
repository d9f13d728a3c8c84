import { LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import type { ToolDefinition } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import type { ChatBody, FunctionChoice } from './chat-schema.ts';
import { checkCustomFormat, customFunction } from './custom-tools.ts';
import { invalidValue, shapeError } from './field-checks.ts';

/** Tools of a chat as its model sees them. */
export interface ChatTools {
  /** Functions; undefined if there are none. */
  readonly tools: readonly ToolDefinition[] | undefined;
  readonly choice: FunctionChoice | undefined;
  /** Names of the tools that were given as `custom`. */
  readonly customTools: ReadonlySet<string>;
}

type GivenTool = NonNullable<ChatBody['tools']>[number];
type GivenChoice = Exclude<NonNullable<ChatBody['tool_choice']>, string>;

/**
 * Reads `tools` and `tool_choice`. Functions and custom tools are served; tools that only another server could run are
 * left out.
 * @throws ServeError `invalid_value`, `missing_required_parameter`
 */
export function readChatTools({ tools: given, tool_choice: choice }: ChatBody, leftOut: LeftOut): ChatTools {
  if (given != null) checkNumber(given);
  const dropped = new Set<string>();
  const tools = (given ?? []).flatMap((tool, at): readonly ToolDefinition[] => {
    const served = readTool(tool, at);
    if (served !== undefined) return [served];
    dropped.add(tool.type);
    leftOut.note('tool', tool.type);
    return [];
  });
  const allowed = readChoice(choice, tools, dropped);
  const shown = allowed.tools.length === 0 ? undefined : allowed.tools;
  const custom = (given ?? []).flatMap(({ type, custom }) => (type === 'custom' ? [custom?.name ?? ''] : []));
  return { tools: shown, choice: shown === undefined ? undefined : allowed.choice, customTools: new Set(custom) };
}

function checkNumber(tools: readonly GivenTool[]): void {
  if (tools.length === 0) {
    throw invalidValue('tools array cannot be empty; omit the field entirely to disable tool use', 'tools');
  }
  if (tools.length <= LIMITS.tools.max) return;
  const message = `tools array cannot hold more than ${LIMITS.tools.max} entries, got ${tools.length}`;
  throw overLimit('tools', message, { param: 'tools' });
}

function readTool(tool: GivenTool, at: number): ToolDefinition | undefined {
  if (tool.type === 'function') {
    const called = tool.function;
    if (called === undefined) throw missing(`tools[${at}].function`);
    checkTool(called, at, `tools[${at}].function`);
    return tool as ToolDefinition; // its function was just checked
  }
  if (tool.type !== 'custom') {
    requireHostedType(tool.type, `tools[${at}]`, 'function and custom');
    return undefined;
  }
  if (tool.custom === undefined) throw missing(`tools[${at}].custom`);
  const { name } = tool.custom;
  checkTool({ name }, at, `tools[${at}].custom`);
  checkCustomFormat(tool.custom.format, `tools[${at}].custom.format`);
  return customFunction(tool.custom, name);
}

function missing(param: string): ServeError {
  return new ServeError('missing_required_parameter', `missing field \`${param}\``, { param });
}

interface ReadChoice {
  /** Tools that may be called. */
  readonly tools: readonly ToolDefinition[];
  readonly choice: FunctionChoice | undefined;
}

function readChoice(
  choice: ChatBody['tool_choice'],
  tools: readonly ToolDefinition[],
  dropped: ReadonlySet<string>,
): ReadChoice {
  if (choice === 'required') requireSome(tools, dropped);
  if (choice == null || typeof choice === 'string') return { tools, choice: choice ?? undefined };
  if (choice.type === 'allowed_tools') return allowedTools(choice, tools, dropped);
  if (choice.type !== 'function' && choice.type !== 'custom') throw hostedChoice(choice.type);
  const name = choice[choice.type]?.name;
  if (name === undefined) throw missing(`tool_choice.${choice.type}.name`);
  if (tools.some((tool) => tool.function.name === name)) {
    return { tools, choice: { type: 'function', function: { name } } };
  }
  throw invalidValue(`tool named "${name}" in tool_choice is not present in tools`, 'tool_choice');
}

/** Refuses to require a call if there is no tool. @param dropped types of the hosted tools that were left out */
export function requireSome(tools: readonly ToolDefinition[], dropped: ReadonlySet<string>): void {
  if (tools.length > 0) return;
  const [hosted] = dropped;
  if (hosted !== undefined) throw hostedChoice(hosted);
  throw invalidValue('tool_choice is "required" but tools is empty', 'tool_choice');
}

function allowedTools(
  { allowed_tools: allowed }: GivenChoice,
  tools: readonly ToolDefinition[],
  dropped: ReadonlySet<string>,
): ReadChoice {
  if (allowed === undefined) throw missing('tool_choice.allowed_tools');
  if (allowed.tools.length === 0) {
    throw shapeError('invalid_value', 'tool_choice.allowed_tools.tools: expected at least one tool', 'tool_choice');
  }
  const given = new Set(tools.map((tool) => tool.function.name));
  const names = new Set<string>();
  for (const entry of allowed.tools) {
    const name = nameIn(entry);
    if (typeof name === 'string' && given.has(name)) names.add(name);
    else requireHosted(entry.type, name, dropped);
  }
  const shown = tools.filter((tool) => names.has(tool.function.name));
  if (allowed.mode === 'required') requireSome(shown, dropped);
  return { tools: shown, choice: allowed.mode };
}

function nameIn({ function: called, custom, name }: UnknownRecord): unknown {
  return isRecord(called) ? called.name : isRecord(custom) ? custom.name : name;
}

/** Checks a tool that a choice allows: it must be one of `tools`, or a hosted tool that was left out of them. */
export function requireHosted(type: unknown, name: unknown, dropped: ReadonlySet<string>): void {
  if (dropped.has(String(type))) return;
  const called = `"${String(name ?? type).slice(0, 100)}"`;
  throw invalidValue(`tool named ${called} in tool_choice is not present in tools`, 'tool_choice');
}

/**
 * Types of the tools that OpenAI, Anthropic and compatible providers run on their own servers or describe themselves.
 */
const HOSTED = new RegExp(
  `^(?:(?:${[
    '[a-z]+_search|web_fetch|code_(?:interpreter|execution)|image_generation|mcp|advisor|programmatic_tool_calling',
    'browser|computer|(?:local_)?shell|apply_patch|namespace|builtin_function|retrieval|url_context|google_maps|document_library',
  ].join('|')})(?:[_-][a-z0-9_-]+)?|[a-z_]+_\\d{8})$`,
);

/**
 * Checks a tool that is not served here: hosted tools of any version are left out; no server knows any other type.
 * @param param place of the tool in the body
 * @param allowed types that are served there
 * @throws ServeError `invalid_value`
 */
export function requireHostedType(type: string, param: string, allowed: string): void {
  if (HOSTED.test(type)) return;
  const message = `${param}.type: "${type.slice(0, 100)}" is not a type of tool; allowed are ${allowed}`;
  throw shapeError('invalid_value', message, `${param}.type`);
}

/** Creates the error for a forced call of a hosted tool, which no part of the product runs. */
export function hostedChoice(type: string): ServeError {
  const message = `tool_choice asks for the hosted tool "${type.slice(0, 100)}", which is not supported: allowed are functions and custom tools`;
  return invalidValue(message, 'tool_choice');
}

const FUNCTION_NAME = /^[A-Za-z0-9_-]+$/;

interface NamedFunction {
  readonly name: string;
  readonly parameters?: unknown;
  readonly strict?: boolean | null | undefined;
}

/** Checks the name and the schema of tool number `at`, which stands at `param` of the body. */
export function checkTool(tool: NamedFunction, at: number, param: string): void {
  if (tool.name === '') throw invalidValue(`Function name at index ${at} cannot be empty`, `${param}.name`);
  if (!FUNCTION_NAME.test(tool.name)) {
    throw invalidValue(
      `Function at index ${at} has an invalid name: "${tool.name}". ` +
        'Only a-z, A-Z, 0-9, underscores, and dashes are allowed.',
      `${param}.name`,
    );
  }
  if (tool.strict !== true) return;
  const offender = findOpenObject(tool.parameters, '#');
  if (offender !== undefined) {
    throw invalidValue(
      `Invalid schema for function '${tool.name}': In context=${offender}, ` +
        'object schemas require additionalProperties: false',
      `${param}.parameters`,
    );
  }
}

/** Returns where in a JSON schema an object allows unnamed properties; undefined = nowhere. */
function findOpenObject(schema: unknown, context: string): string | undefined {
  if (Array.isArray(schema)) {
    for (let at = 0; at < schema.length; at++) {
      const offender = findOpenObject(schema[at], `${context}/${at}`);
      if (offender !== undefined) return offender;
    }
    return undefined;
  }
  if (typeof schema !== 'object' || schema === null) return undefined;
  const record = schema as Readonly<Record<string, unknown>>;
  if (record.type === 'object' && record.additionalProperties !== false) return context;
  for (const [key, nested] of Object.entries(record)) {
    const offender = findOpenObject(nested, `${context}/${key}`);
    if (offender !== undefined) return offender;
  }
  return undefined;
}
