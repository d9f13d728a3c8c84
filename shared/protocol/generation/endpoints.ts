/**
 * The kinds of request, by their name in the `endpoint` label of metrics. `modelType` is what a model registers as to serve
 * them; `enginePath` is where an OpenAI-compatible server takes the client's body as it is.
 */
export const ENDPOINTS = {
  chat_completions: { modelType: 'Chat', enginePath: '/v1/chat/completions' },
  completions: { modelType: 'Completions', enginePath: '/v1/completions' },
  embeddings: { modelType: 'Embedding', enginePath: '/v1/embeddings' },
  images: { modelType: 'Images', enginePath: '/v1/images/generations' },
  videos: { modelType: 'Videos', enginePath: '/v1/videos' },
  responses: { modelType: 'Chat', enginePath: undefined },
  anthropic_messages: { modelType: 'Chat', enginePath: undefined },
  tensor: { modelType: 'TensorBased', enginePath: undefined },
} as const;

/** Route family of a request. */
export type Endpoint = keyof typeof ENDPOINTS;

/** Where an OpenAI-compatible server takes bodies of `endpoint`, a name that a frontend sent; undefined where it takes none. */
export function enginePathOf(endpoint: string): string | undefined {
  return Object.hasOwn(ENDPOINTS, endpoint) ? ENDPOINTS[endpoint as Endpoint].enginePath : undefined; // it has it
}
