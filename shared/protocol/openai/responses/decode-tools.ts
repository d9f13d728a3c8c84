import { assertNever, ServeError } from '../../../errors/index.ts';
import type { ChatBody } from '../chat-schema.ts';
import { invalidValue } from '../field-checks.ts';
import { checkTool } from '../tool-checks.ts';
import type { ResponsesBody, ResponsesTool } from './body-schema.ts';

type ChatTool = NonNullable<ChatBody['tools']>[number];
type ChatToolChoice = NonNullable<ChatBody['tool_choice']>;

/** The tools of a request as the model is told of them. */
export interface DecodedTools {
  /** Function tools; a custom tool is a function of one text. */
  readonly chatTools: readonly ChatTool[];
  /** Names of the custom ones among them. */
  readonly customNames: ReadonlySet<string>;
  /** The tools that are served, as the answer repeats them. */
  readonly echo: readonly Readonly<Record<string, unknown>>[];
  readonly chatChoice: ChatToolChoice | undefined;
  readonly echoChoice: unknown;
  /** Types of the hosted tools that were dropped (ruling 11). */
  readonly dropped: readonly string[];
}

const TOOLS_MAX = 1536;

/**
 * Reads `tools` and `tool_choice`.
 * @throws ServeError `invalid_value`, `missing_required_parameter`.
 */
export function decodeTools(body: ResponsesBody): DecodedTools {
  const tools = body.tools ?? [];
  if (tools.length > TOOLS_MAX) {
    throw invalidValue(`tools array cannot hold more than ${TOOLS_MAX} entries, got ${tools.length}`, 'tools');
  }
  const chatTools: ChatTool[] = [];
  const customNames = new Set<string>();
  const echo: Readonly<Record<string, unknown>>[] = [];
  const dropped = new Set<string>();
  for (const [at, tool] of tools.entries()) {
    if (tool.type !== 'function' && tool.type !== 'custom') {
      dropped.add(tool.type);
      continue;
    }
    const name = requireName(tool, at);
    checkTool({ ...tool, name, parameters: tool.parameters }, at, `tools[${at}]`);
    if (tool.type === 'custom') customNames.add(name);
    chatTools.push(tool.type === 'custom' ? customTool(tool, name) : functionTool(tool, name));
    echo.push(tool.type === 'custom' ? tool : functionEcho(tool, name));
  }
  return { ...decodeChoice(body, chatTools), customNames, echo, dropped: [...dropped] };
}

function requireName(tool: ResponsesTool, at: number): string {
  if (tool.name !== undefined) return tool.name;
  const param = `tools[${at}].name`;
  throw new ServeError('missing_required_parameter', `missing field \`${param}\``, { param });
}

function functionTool(tool: ResponsesTool, name: string): ChatTool {
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

function functionEcho(tool: ResponsesTool, name: string): Readonly<Record<string, unknown>> {
  return {
    type: 'function',
    name,
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? true,
    ...(tool.description == null ? {} : { description: tool.description }),
  };
}

/** Chat templates know functions only: the tool's text becomes the one argument of a function (`CustomInputReader`). */
function customTool(tool: ResponsesTool, name: string): ChatTool {
  const lines = [tool.description ?? '', describeFormat(tool.format)].filter((line) => line !== '');
  return {
    type: 'function',
    function: {
      name,
      ...(lines.length === 0 ? {} : { description: lines.join('\n\n') }),
      parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
    },
  };
}

/** No engine holds one argument to a grammar, so that the model is told of it. */
function describeFormat(format: ResponsesTool['format']): string {
  if (format?.type !== 'grammar') return '';
  return `\`input\` must match this ${String(format.syntax)} grammar:\n${String(format.definition)}`;
}

type DecodedChoice = Pick<DecodedTools, 'chatTools' | 'chatChoice' | 'echoChoice'>;

function decodeChoice({ tool_choice: choice }: ResponsesBody, chatTools: readonly ChatTool[]): DecodedChoice {
  if (choice == null) return { chatTools, chatChoice: undefined, echoChoice: 'auto' };
  if (typeof choice === 'string') {
    if (choice === 'required') requireTools(chatTools);
    return { chatTools, chatChoice: choice, echoChoice: choice };
  }
  const kind = choiceKind(choice.type);
  switch (kind) {
    case 'named':
      return { chatTools, chatChoice: namedChoice(choice.name, chatTools), echoChoice: choice };
    case 'allowed': {
      const names = new Set((choice.tools ?? []).map((tool) => tool.name));
      const allowed = chatTools.filter((tool) => names.has(tool.function.name));
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

function namedChoice(name: string | undefined, tools: readonly ChatTool[]): ChatToolChoice {
  if (name !== undefined && tools.some((tool) => tool.function.name === name)) {
    return { type: 'function', function: { name } };
  }
  throw invalidValue(`tool named "${name ?? ''}" in tool_choice is not present in tools`, 'tool_choice');
}
