import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** Where the official client declares the body of each route: file below its resources, interface. */
const BODIES = {
  '/v1/chat/completions': ['chat/completions/completions', 'ChatCompletionCreateParamsBase'],
  '/v1/completions': ['completions', 'CompletionCreateParamsBase'],
  '/v1/embeddings': ['embeddings', 'EmbeddingCreateParams'],
  '/v1/responses': ['responses/responses', 'ResponseCreateParamsBase'],
  '/v1/responses/compact': ['responses/responses', 'ResponseCompactParams'],
  '/v1/responses/input_tokens': ['responses/input-tokens', 'InputTokenCountParams'],
  '/v1/images/generations': ['images', 'ImageGenerateParamsBase'],
  '/v1/images/edits': ['images', 'ImageEditParamsBase'],
} as const;

/** Root keys of published bodies, by route. */
export interface PublishedKeys {
  /** Version of the `openai` package. */
  readonly version: string;
  readonly keys: Readonly<Record<keyof typeof BODIES, readonly string[]>>;
}

const SDK = new URL('../../node_modules/openai/', import.meta.url);

/**
 * Reads the keys from the declarations of the installed client.
 * @throws Error if a body is not declared in its known place
 */
export function readSdkKeys(): PublishedKeys {
  const { version } = JSON.parse(readFileSync(new URL('package.json', SDK), 'utf8')) as { readonly version: string };
  const keys = Object.fromEntries(
    Object.entries(BODIES).map(([route, [file, name]]) => [
      route,
      keysOf(fileURLToPath(new URL(`resources/${file}.d.ts`, SDK)), name),
    ]),
  ) as PublishedKeys['keys'];
  return { version, keys };
}

/**
 * Returns the root keys of the body of `POST /v1/messages` that the installed `@anthropic-ai/sdk` declares, beta
 * included.
 */
export function readAnthropicKeys(): readonly string[] {
  const files = ['messages/messages', 'beta/messages/messages'].map((file) =>
    fileURLToPath(new URL(`../../node_modules/@anthropic-ai/sdk/resources/${file}.d.ts`, import.meta.url)),
  );
  return [...new Set(files.flatMap((file) => keysOf(file, 'MessageCreateParamsBase')))].sort();
}

function keysOf(file: string, name: string): readonly string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  const declared = source.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === name);
  if (declared === undefined || !ts.isInterfaceDeclaration(declared))
    throw new Error(`no interface ${name} in ${file}`);
  return declared.members
    .flatMap(({ name: key }) => (key !== undefined && ts.isIdentifier(key) ? [key.text] : []))
    .sort();
}
