import { assertNever, LIMITS, overLimit, ServeError } from '../../../errors/index.ts';
import type { ToolDefinition } from '../../generation/generation-request.ts';
import type { FunctionChoice } from '../chat-schema.ts';
import { checkTool, hostedChoice, requireHosted, requireHostedType, requireSome } from '../chat-tools.ts';
import { checkCustomFormat, customFunction } from '../custom-tools.ts';
import { invalidValue, shapeError } from '../field-checks.ts';
import type { ResponsesBody, ResponsesTool } from './body-schema.ts';
import type { CallKind, InputItem } from './items.ts';

/** Tools of a request as the model sees them. */
export interface DecodedTools {
  readonly chatTools: readonly ToolDefinition[];
  /** Format of calls in the answer, by the function's name in the chat. */
  readonly shapes: ReadonlyMap<string, CallShape>;
  /** Served tools, as the answer repeats them. */
  readonly echo: readonly Readonly<Record<string, unknown>>[];
  readonly chatChoice: FunctionChoice | undefined;
  readonly echoChoice: unknown;
  /** Types of the hosted tools that were dropped. */
  readonly dropped: ReadonlySet<string>;
}

/**
 * Reads `tools` and `tool_choice`, and the tools in items of the conversation.
 * @param ownFrom index of the first item in the body's own `input`, for the paths in errors
 * @throws ServeError `invalid_value`, `missing_required_parameter`.
 */
export function decodeTools(body: ResponsesBody, items: readonly InputItem[], ownFrom: number): DecodedTools {
  const list = new ToolList();
  for (const [at, tool] of (body.tools ?? []).entries()) requireKnownType(tool, `tools[${at}]`);
  const echo = list.add(body.tools ?? [], 'tools').map(echoOf);
  for (const [at, item] of items.entries()) {
    if (item.type !== 'additional_tools' && item.type !== 'tool_search_output') continue;
    list.add(item.tools, `input[${at - ownFrom}].tools`);
  }
  const { shapes, dropped, chatTools } = list;
  return { ...decodeChoice(body, { chatTools, shapes, dropped }), shapes, echo, dropped };
}

const SERVED = new Set(['function', 'custom', 'namespace']);

/**
 * Checks the type of a tool in the client's `tools`. Items of the conversation may have tools of any type, because
 * another server may have written them.
 */
function requireKnownType({ type, tools }: ResponsesTool, param: string): void {
  if (!SERVED.has(type)) requireHostedType(type, param, 'function, custom and namespace');
  else if (type === 'namespace')
    for (const [at, tool] of (tools ?? []).entries()) requireKnownType(tool, `${param}.tools[${at}]`);
}

function echoOf(tool: ResponsesTool): Readonly<Record<string, unknown>> {
  if (tool.type !== 'function') return tool;
  return {
    type: 'function',
    name: tool.name,
    description: tool.description ?? null,
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? true,
  };
}

type DecodedChoice = Pick<DecodedTools, 'chatTools' | 'chatChoice' | 'echoChoice'>;

function decodeChoice(
  { tool_choice: choice }: ResponsesBody,
  { chatTools, shapes, dropped }: Pick<DecodedTools, 'chatTools' | 'shapes' | 'dropped'>,
): DecodedChoice {
  if (choice == null) return { chatTools, chatChoice: undefined, echoChoice: 'auto' };
  if (typeof choice === 'string') {
    if (choice === 'required') requireSome(chatTools, dropped);
    return { chatTools, chatChoice: choice, echoChoice: choice };
  }
  const kind = choiceKind(choice.type);
  switch (kind) {
    case 'named':
      return { chatTools, chatChoice: namedChoice(choice.name, chatTools, shapes), echoChoice: choice };
    case 'allowed': {
      const allowed = allowedTools(choice.tools ?? [], { chatTools, shapes, dropped });
      if (choice.mode === 'required') requireSome(allowed, dropped);
      const mode = choice.mode ?? 'auto';
      return { chatTools: allowed, chatChoice: mode, echoChoice: { ...choice, mode } };
    }
    case 'hosted':
      throw hostedChoice(choice.type);
    default:
      return assertNever(kind);
  }
}

function choiceKind(type: string): 'named' | 'allowed' | 'hosted' {
  if (type === 'function' || type === 'custom') return 'named';
  return type === 'allowed_tools' ? 'allowed' : 'hosted';
}

type NamedTool = Readonly<Record<string, unknown>>;

/**
 * Returns the tools that the choice names; the name of a namespace stands for all its tools.
 * @throws ServeError `invalid_value` for a name without a tool
 */
function allowedTools(
  allowed: readonly NamedTool[],
  { chatTools, shapes, dropped }: Pick<DecodedTools, 'chatTools' | 'shapes' | 'dropped'>,
): readonly ToolDefinition[] {
  if (allowed.length === 0) {
    throw shapeError('invalid_value', 'tool_choice.tools: expected at least one tool', 'tool_choice');
  }
  const known = namesOf(chatTools, shapes);
  const shown = new Set<ToolDefinition>();
  for (const { type, namespace, name } of allowed) {
    const given = type === TOOL_SEARCH ? TOOL_SEARCH : String(name);
    const found = known.get(type === 'namespace' ? `${given}__` : chatToolName(textOf(namespace), given));
    if (found === undefined) requireHosted(type, name, dropped);
    else for (const tool of found) shown.add(tool);
  }
  return chatTools.filter((tool) => shown.has(tool));
}

/**
 * Returns the tools by every name that a choice may use: their own, with or without their namespace, and the name of
 * the namespace.
 */
function namesOf(
  chatTools: readonly ToolDefinition[],
  shapes: DecodedTools['shapes'],
): ReadonlyMap<string, readonly ToolDefinition[]> {
  const known = new Map<string, ToolDefinition[]>();
  for (const tool of chatTools) {
    const shape = shapes.get(tool.function.name);
    const names = new Set([tool.function.name]);
    if (shape?.namespace !== undefined) names.add(shape.name).add(`${shape.namespace}__`);
    for (const name of names) {
      const found = known.get(name);
      if (found === undefined) known.set(name, [tool]);
      else found.push(tool);
    }
  }
  return known;
}

/** Returns the choice of a tool by its own name; a tool in a namespace counts if only one has that name. */
function namedChoice(
  name: string | undefined,
  chatTools: readonly ToolDefinition[],
  shapes: DecodedTools['shapes'],
): FunctionChoice {
  const named = chatTools.filter((tool) => tool.function.name === name);
  const found = named.length > 0 ? named : chatTools.filter((tool) => shapes.get(tool.function.name)?.name === name);
  if (found.length === 1) return { type: 'function', function: { name: found[0]!.function.name } }; // the only one
  const problem = found.length === 0 ? 'is not present in tools' : 'is present in several namespaces';
  throw invalidValue(`tool named "${name ?? ''}" in tool_choice ${problem}`, 'tool_choice');
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Format of a function's calls in the answer. */
export interface CallShape {
  readonly kind: CallKind;
  /** Name as the client gave it. */
  readonly name: string;
  /** Namespace of the tool, if it has one. */
  readonly namespace: string | undefined;
}

interface ListedTool {
  readonly chat: ToolDefinition;
  readonly shape: CallShape;
}

/** Type of the tool that searches for tools, and name of its function. */
export const TOOL_SEARCH = 'tool_search';

/** Returns the name of a tool in the chat, which has no namespaces. */
export function chatToolName(namespace: string | null | undefined, name: string): string {
  return namespace == null || namespace === '' ? name : `${namespace}__${name}`;
}

/**
 * Tools of one request as functions of a chat. It serves functions, custom tools (functions with one text), namespaces
 * of both, and a search for tools that the client executes; other types are left out.
 */
class ToolList {
  /** Tools by name in the chat. */
  readonly #byName = new Map<string, ListedTool>();
  readonly #dropped = new Set<string>();
  #given = 0;

  get chatTools(): readonly ToolDefinition[] {
    return Array.from(this.#byName.values(), ({ chat }) => chat);
  }

  /** Formats of calls by name in the chat. */
  get shapes(): ReadonlyMap<string, CallShape> {
    return new Map(Array.from(this.#byName, ([name, { shape }]) => [name, shape]));
  }

  /** Types that were left out. */
  get dropped(): ReadonlySet<string> {
    return this.#dropped;
  }

  /**
   * Adds the tools at `path` of the body. A later tool replaces an earlier one of the same name.
   * @returns the tools that are served
   * @throws ServeError `invalid_value`, `missing_required_parameter`
   */
  add(tools: readonly ResponsesTool[], path: string, namespace?: string): readonly ResponsesTool[] {
    this.#given += tools.length;
    if (this.#given > LIMITS.tools.max) {
      const message = `tools array cannot hold more than ${LIMITS.tools.max} entries, got ${this.#given}`;
      throw overLimit('tools', message, { param: path });
    }
    return tools.filter((tool, at) => this.#addOne(tool, at, `${path}[${at}]`, namespace));
  }

  /** Adds a tool. Returns false if it is not served. */
  #addOne(tool: ResponsesTool, at: number, param: string, namespace: string | undefined): boolean {
    if (tool.type === 'function' || tool.type === 'custom') {
      const name = requireName(tool, param);
      const chatName = chatToolName(namespace, name);
      checkTool({ ...tool, name: chatName, parameters: tool.parameters }, at, param);
      const isCustom = tool.type === 'custom';
      if (isCustom) checkCustomFormat(tool.format, `${param}.format`);
      const chat = isCustom ? customFunction(tool, chatName) : functionTool(tool, chatName);
      const kind = isCustom ? 'custom_tool_call' : 'function_call';
      this.#byName.set(chatName, { chat, shape: { kind, name, namespace } });
      return true;
    }
    if (tool.type === 'namespace' && namespace === undefined) {
      this.add(tool.tools ?? [], `${param}.tools`, requireName(tool, param));
      return true;
    }
    if (tool.type === TOOL_SEARCH && tool.execution === 'client') {
      const shape = { kind: 'tool_search_call', name: TOOL_SEARCH, namespace: undefined } as const;
      this.#byName.set(TOOL_SEARCH, { chat: functionTool(tool, TOOL_SEARCH), shape });
      return true;
    }
    this.#dropped.add(tool.type);
    return false;
  }
}

function requireName(tool: ResponsesTool, path: string): string {
  if (tool.name !== undefined) return tool.name;
  const param = `${path}.name`;
  throw new ServeError('missing_required_parameter', `missing field \`${param}\``, { param });
}

function functionTool(tool: ResponsesTool, name: string): ToolDefinition {
  return {
    type: 'function',
    function: {
      name,
      ...(tool.description == null ? {} : { description: tool.description }),
      ...(tool.parameters == null ? {} : { parameters: tool.parameters }),
      ...(tool.strict == null ? {} : { strict: tool.strict }),
    },
  };
}
