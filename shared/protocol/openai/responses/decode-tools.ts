import { assertNever } from '../../../errors/index.ts';
import type { ChatBody } from '../chat-schema.ts';
import { invalidValue } from '../field-checks.ts';
import type { ResponsesBody, ResponsesTool } from './body-schema.ts';
import type { InputItem } from './items.ts';
import { type CallShape, type ChatTool, chatToolName, ToolList } from './tool-list.ts';

type ChatToolChoice = NonNullable<ChatBody['tool_choice']>;

/** The tools of a request as the model is told of them. */
export interface DecodedTools {
  readonly chatTools: readonly ChatTool[];
  /** How calls stand in the answer, by the function's name in the chat. */
  readonly shapes: ReadonlyMap<string, CallShape>;
  /** The tools that are served, as the answer repeats them. */
  readonly echo: readonly Readonly<Record<string, unknown>>[];
  readonly chatChoice: ChatToolChoice | undefined;
  readonly echoChoice: unknown;
  /** Types of the hosted tools that were dropped. */
  readonly dropped: readonly string[];
}

/**
 * Reads `tools` and `tool_choice`, and the tools that items of the conversation bring with them.
 * @param ownFrom index of the first item that stands in the body's own `input`, for the paths in errors
 * @throws ServeError `invalid_value`, `missing_required_parameter`.
 */
export function decodeTools(body: ResponsesBody, items: readonly InputItem[], ownFrom: number): DecodedTools {
  const list = new ToolList();
  const echo = list.add(body.tools ?? [], 'tools').map(echoOf);
  for (const [at, item] of items.entries()) {
    if (item.type !== 'additional_tools' && item.type !== 'tool_search_output') continue;
    list.add(item.tools, `input[${at - ownFrom}].tools`);
  }
  const { shapes, dropped, chatTools } = list;
  return { ...decodeChoice(body, chatTools, shapes), shapes, echo, dropped };
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
  chatTools: readonly ChatTool[],
  shapes: DecodedTools['shapes'],
): DecodedChoice {
  if (choice == null) return { chatTools, chatChoice: undefined, echoChoice: 'auto' };
  if (typeof choice === 'string') {
    if (choice === 'required') requireTools(chatTools);
    return { chatTools, chatChoice: choice, echoChoice: choice };
  }
  const kind = choiceKind(choice.type);
  switch (kind) {
    case 'named':
      return { chatTools, chatChoice: namedChoice(choice.name, chatTools, shapes), echoChoice: choice };
    case 'allowed': {
      const allowed = allowedTools(choice.tools ?? [], chatTools, shapes);
      if (choice.mode === 'required') requireTools(allowed);
      return { chatTools: allowed, chatChoice: choice.mode ?? 'auto', echoChoice: choice };
    }
    case 'hosted':
      return { chatTools, chatChoice: 'auto', echoChoice: 'auto' };
    default:
      return assertNever(kind);
  }
}

function choiceKind(type: string): 'named' | 'allowed' | 'hosted' {
  if (type === 'function' || type === 'custom') return 'named';
  return type === 'allowed_tools' ? 'allowed' : 'hosted';
}

function requireTools(tools: readonly ChatTool[]): void {
  if (tools.length === 0) throw invalidValue('tool_choice is "required" but tools is empty', 'tool_choice');
}

type NamedTool = Readonly<Record<string, unknown>>;

/** Tools by the names that the choice gives; the name of a namespace stands for all its tools. */
function allowedTools(
  allowed: readonly NamedTool[],
  chatTools: readonly ChatTool[],
  shapes: DecodedTools['shapes'],
): readonly ChatTool[] {
  const spaces = new Set(allowed.filter(({ type }) => type === 'namespace').map(({ name }) => name));
  const names = new Set(allowed.map(({ namespace, name }) => chatToolName(textOf(namespace), String(name))));
  return chatTools.filter((tool) => {
    const { name } = tool.function;
    const shape = shapes.get(name);
    return names.has(name) || spaces.has(shape?.namespace) || (shape?.namespace !== undefined && names.has(shape.name));
  });
}

/** A tool by its own name; in a namespace too, where only one has that name. */
function namedChoice(
  name: string | undefined,
  chatTools: readonly ChatTool[],
  shapes: DecodedTools['shapes'],
): ChatToolChoice {
  const named = chatTools.filter((tool) => tool.function.name === name);
  const found = named.length > 0 ? named : chatTools.filter((tool) => shapes.get(tool.function.name)?.name === name);
  if (found.length === 1) return { type: 'function', function: { name: found[0]!.function.name } }; // the only one
  const problem = found.length === 0 ? 'is not present in tools' : 'is present in several namespaces';
  throw invalidValue(`tool named "${name ?? ''}" in tool_choice ${problem}`, 'tool_choice');
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
