interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly example?: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
  readonly responses: Readonly<Record<string, unknown>>;
}

/** Outcome of the example of one operation. */
export interface PlayedExample {
  readonly id: string;
  readonly status: number;
  /** Whether the document lists the status for this operation. */
  readonly isDocumented: boolean;
  readonly text: string;
}

/** Sends the example of every operation of `/openapi.json`, as the documentation page prefills it. */
export async function playExamples(url: string): Promise<readonly PlayedExample[]> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  };
  const played: PlayedExample[] = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      played.push(await playExample(url, path, method, operation));
    }
  }
  return played;
}

async function playExample(url: string, path: string, method: string, operation: Operation): Promise<PlayedExample> {
  const { operationId: id, parameters = [], requestBody, responses } = operation;
  const filled = parameters.reduce(
    (text, { name, example }) => text.replace(`{${name}}`, encodeURIComponent(example ?? `no-example-of-${name}`)),
    path,
  );
  const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  if (requestBody !== undefined && content?.example === undefined) throw new Error(`${id} has a body and no example`);
  const response = await fetch(url + filled, {
    method: method.toUpperCase(),
    ...(type === undefined ? {} : { headers: { 'content-type': type }, body: JSON.stringify(content?.example) }),
  });
  const { status } = response;
  return { id, status, isDocumented: `${status}` in responses, text: await response.text() };
}
