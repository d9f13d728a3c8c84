import { isCallKind } from './items.ts';

type Item = Readonly<Record<string, unknown>>;

/** Call of a tool that this server does not know, as it stands in a conversation. */
export interface ForeignCall {
  readonly name: string;
  readonly arguments: unknown;
  /** Result; undefined if an item of its own has it. */
  readonly result: unknown;
}

/** Fields of every item that have no meaning for a model. */
const FRAME: ReadonlySet<string> = new Set(['type', 'id', 'call_id', 'status', 'created_by', 'encrypted_content']);

/** Readers of calls by kind: the arguments of a call, and its result if its own item has one. */
const HOSTED: Readonly<Record<string, (item: Item) => Omit<ForeignCall, 'name'>>> = {
  web_search_call: ({ action, results, status }) => ({ arguments: action, result: results ?? status ?? '' }),
  file_search_call: ({ queries, results, status }) => ({ arguments: { queries }, result: results ?? status ?? '' }),
  code_interpreter_call: ({ code, outputs, status }) => ({
    arguments: { code },
    result: logsOf(outputs) ?? status ?? '',
  }),
  // The picture itself is left out: it has megabytes, of which a text model can make nothing.
  image_generation_call: ({ revised_prompt: prompt, status }) => ({ arguments: { prompt }, result: status ?? '' }),
  mcp_call: ({ arguments: given, output, error }) => ({ arguments: given, result: output ?? error ?? '' }),
  computer_call: ({ action, actions }) => ({ arguments: action ?? { actions }, result: undefined }),
  local_shell_call: ({ action }) => ({ arguments: action, result: undefined }),
  shell_call: ({ action }) => ({ arguments: action, result: undefined }),
  program: ({ code }) => ({ arguments: { code }, result: undefined }),
  apply_patch_call: ({ operation }) => ({ arguments: operation, result: undefined }),
};

/** Returns the call in an item; undefined for an item without one. */
export function foreignCall(kind: string, item: Item): ForeignCall | undefined {
  const tool = isCallKind(kind) ? kind.replace(/_call$/, '') : '';
  if (tool === '') return undefined;
  const read = Object.hasOwn(HOSTED, kind) ? HOSTED[kind] : undefined;
  return { name: nameOf(tool, item), ...(read ?? readAny)(item) };
}

function nameOf(tool: string, { name, server_label: server }: Item): string {
  if (tool !== 'mcp' || typeof name !== 'string') return tool;
  return typeof server === 'string' ? `${server}__${name}` : name;
}

function readAny(item: Item): Omit<ForeignCall, 'name'> {
  return { arguments: Object.fromEntries(Object.entries(item).filter(([key]) => !FRAME.has(key))), result: undefined };
}

/** Returns a program's printed output; its pictures are left out. */
function logsOf(outputs: unknown): unknown {
  if (!Array.isArray(outputs)) return undefined;
  return outputs.map((output) => (output as { readonly logs?: unknown } | null)?.logs ?? '');
}
