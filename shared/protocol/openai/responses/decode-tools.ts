import { assertNever, LIMITS, overLimit, ServeError } from '../../../errors/index.ts';
import type { ToolDefinition } from '../../generation/generation-request.ts';
import type { FunctionChoice } from '../chat-schema.ts';
import { checkTool, hostedChoice, requireHosted, requireHostedType, requireSome } from '../chat-tools.ts';
import { checkCustomFormat, customFunction } from '../custom-tools.ts';
import { invalidValue, shapeError } from '../field-checks.ts';
import type { ResponsesBody, ResponsesTool } from './body-schema.ts';
import type { CallKind, InputItem } from './items.ts';

/** The tools of a request as the model is told of them. */
export interface DecodedTools {
  readonly chatTools: readonly ToolDefinition[];
  /** How calls stand in the answer, by the function's name in the chat. */
  readonly shapes: ReadonlyMap<string, CallShape>;
  /** The tools that are served, as the answer repeats them. */
  readonly echo: readonly Readonly<Record<string, unknown>>[];
  readonly chatChoice: FunctionChoice | undefined;
  readonly echoChoice: unknown;
  /** Types of the hosted tools that were dropped. */
  readonly dropped: ReadonlySet<string>;
}

/**
 * Reads `tools` and `tool_choice`, and the tools that items of the conversation bring with them.
 * @param ownFrom index of the first item that stands in the body's own `input`, for the paths in errors
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

/** In what the client asks for now: items of the conversation may bring tools of any type, as another server wrote them. */
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
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? true,
    ...(tool.description == null ? {} : { description: tool.description }),
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
      return { chatTools: allowed, chatChoice: choice.mode ?? 'auto', echoChoice: choice };
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
 * Tools by the names that the choice gives; the name of a namespace stands for all its tools.
 * @throws ServeError `invalid_value` for a name that no tool has
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

/** Tools by every name that a choice may have for them: their own, with their namespace or without, and that of the namespace. */
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

/** A tool by its own name; in a namespace too, where only one has that name. */
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

/** How a call of a function of the chat stands in the answer. */
export interface CallShape {
  readonly kind: CallKind;
  /** Name as the client gave it. */
  readonly name: string;
  /** Of tools that stand in a namespace. */
  readonly namespace: string | undefined;
}

interface ListedTool {
  readonly chat: ToolDefinition;
  readonly shape: CallShape;
}

/** The type of the tool, and the name of the function, that searches for tools. */
export const TOOL_SEARCH = 'tool_search';

/** Name of a tool in the chat, which knows no namespaces. */
export function chatToolName(namespace: string | null | undefined, name: string): string {
  return namespace == null || namespace === '' ? name : `${namespace}__${name}`;
}

/**
 * The tools of one request as functions of a chat. Served are functions, custom tools (a function of one text), namespaces of
 * both, and a search for tools that the client carries out; other types are left out.
 */
class ToolList {
  /** By name in the chat. */
  readonly #byName = new Map<string, ListedTool>();
  readonly #dropped = new Set<string>();
  #given = 0;

  get chatTools(): readonly ToolDefinition[] {
    return Array.from(this.#byName.values(), ({ chat }) => chat);
  }

  /** By name in the chat. */
  get shapes(): ReadonlyMap<string, CallShape> {
    return new Map(Array.from(this.#byName, ([name, { shape }]) => [name, shape]));
  }

  /** Types that were left out. */
  get dropped(): ReadonlySet<string> {
    return this.#dropped;
  }

  /**
   * Takes the tools that stand at `path` of the body. A tool that is named again replaces the first of that name.
   * @returns those that are served
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

  /** False for a tool that is not served. */
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
