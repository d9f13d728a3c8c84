import { isCallKind } from './items.ts';

type Item = Readonly<Record<string, unknown>>;

/** A call of a tool that this server does not know, as it stands in a conversation. */
export interface ForeignCall {
  readonly name: string;
  readonly arguments: unknown;
  /** Undefined where an item of its own says it. */
  readonly result: unknown;
}

/** Fields of every item that say nothing to a model. */
const FRAME: ReadonlySet<string> = new Set(['type', 'id', 'call_id', 'status', 'created_by', 'encrypted_content']);

/** What a call looked for or did, and what its own item says of what came of it. */
const HOSTED: Readonly<Record<string, (item: Item) => Omit<ForeignCall, 'name'>>> = {
  web_search_call: ({ action, results, status }) => ({ arguments: action, result: results ?? status ?? '' }),
  file_search_call: ({ queries, results, status }) => ({ arguments: { queries }, result: results ?? status ?? '' }),
  code_interpreter_call: ({ code, outputs, status }) => ({
    arguments: { code },
    result: logsOf(outputs) ?? status ?? '',
  }),
  // The picture itself is its server's: megabytes that a model which writes text has made nothing of.
  image_generation_call: ({ revised_prompt: prompt, status }) => ({ arguments: { prompt }, result: status ?? '' }),
  mcp_call: ({ arguments: given, output, error }) => ({ arguments: given, result: output ?? error ?? '' }),
  computer_call: ({ action, actions }) => ({ arguments: action ?? { actions }, result: undefined }),
  local_shell_call: ({ action }) => ({ arguments: action, result: undefined }),
  shell_call: ({ action }) => ({ arguments: action, result: undefined }),
  program: ({ code }) => ({ arguments: { code }, result: undefined }),
  apply_patch_call: ({ operation }) => ({ arguments: operation, result: undefined }),
};

/** The call that an item stands for; undefined for an item that is none. */
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

/** What a program has printed; pictures that it drew are left to its server. */
function logsOf(outputs: unknown): unknown {
  if (!Array.isArray(outputs)) return undefined;
  return outputs.map((output) => (output as { readonly logs?: unknown } | null)?.logs ?? '');
}
