/** What a worker answers when an embedding is asked for: its one `body`. */
export interface EmbeddingRecord {
  /** One a prompt: base64 of little-endian f32. */
  readonly embeddings: readonly string[];
  readonly prompt_tokens?: number;
  readonly total_tokens?: number;
}

/** The vectors of a worker's `body`; undefined when it is no `EmbeddingRecord`. */
export function readEmbeddings(body: unknown): readonly string[] | undefined {
  if (typeof body !== 'object' || body === null || !('embeddings' in body)) return undefined;
  const { embeddings } = body;
  return Array.isArray(embeddings) && embeddings.every((vector) => typeof vector === 'string') ? embeddings : undefined;
}
