import { LIMITS, overLimit, ServeError } from '../../../errors/index.ts';
import type { ChatBody } from '../chat-schema.ts';
import { checkTool } from '../tool-checks.ts';
import type { ResponsesTool } from './body-schema.ts';
import type { CallKind } from './items.ts';

export type ChatTool = NonNullable<ChatBody['tools']>[number];

/** How a call of a function of the chat stands in the answer. */
export interface CallShape {
  readonly kind: CallKind;
  /** Name as the client gave it. */
  readonly name: string;
  /** Of tools that stand in a namespace. */
  readonly namespace: string | undefined;
}

interface ListedTool {
  readonly chat: ChatTool;
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
export class ToolList {
  /** By name in the chat. */
  readonly #byName = new Map<string, ListedTool>();
  readonly #dropped = new Set<string>();
  #given = 0;

  get chatTools(): readonly ChatTool[] {
    return Array.from(this.#byName.values(), ({ chat }) => chat);
  }

  /** By name in the chat. */
  get shapes(): ReadonlyMap<string, CallShape> {
    return new Map(Array.from(this.#byName, ([name, { shape }]) => [name, shape]));
  }

  /** Types that were left out. */
  get dropped(): readonly string[] {
    return [...this.#dropped];
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
      const chat = isCustom ? customTool(tool, chatName) : functionTool(tool, chatName);
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

/** Chat templates know functions only: the tool's text becomes the one argument of a function. */
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
