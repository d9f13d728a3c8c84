const STREAMED_TEXT: ReadonlySet<string> = new Set(['chat_completions', 'completions']);

/**
 * The client's body as a server is sent it: a stream of text also says at its end what it has used. Whoever serves the
 * client counts by it, and shows it only to clients that asked.
 */
export function askingForUsage(
  endpoint: string,
  body: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (body.stream !== true || !STREAMED_TEXT.has(endpoint)) return body;
  const { stream_options: options } = body;
  const others = typeof options === 'object' && options !== null ? options : {};
  return { ...body, stream_options: { ...others, include_usage: true } };
}
