/** A URL of a medium inside a chat body. */
export interface MediaUrl {
  /** JSON path of the URL in the body, such as `messages[0].content[1].image_url.url`. */
  readonly path: string;
  readonly url: string;
}

const MEDIA_PARTS = ['image_url', 'video_url', 'audio_url'] as const;

type Part = Readonly<Record<string, unknown>>;

/** URLs of the media that the messages of a chat body name, in order. What is not shaped like a chat has none. */
export function mediaUrlsOf(body: Readonly<Record<string, unknown>>): readonly MediaUrl[] {
  const found: MediaUrl[] = [];
  visitMedia(body, (path, url) => {
    found.push({ path, url });
    return url;
  });
  return found;
}

/** The body with every media URL that `replacements` (by path) names replaced; parts that do not change are shared. */
export function withMediaUrls(
  body: Readonly<Record<string, unknown>>,
  replacements: ReadonlyMap<string, string>,
): Readonly<Record<string, unknown>> {
  return replacements.size === 0 ? body : visitMedia(body, (path, url) => replacements.get(path) ?? url);
}

function visitMedia(
  body: Readonly<Record<string, unknown>>,
  visit: (path: string, url: string) => string,
): Readonly<Record<string, unknown>> {
  if (!Array.isArray(body.messages)) return body;
  const messages = body.messages.map((message: unknown, at) => {
    if (!isRecord(message) || !Array.isArray(message.content)) return message;
    const content = message.content.map((part: unknown, partAt) =>
      isRecord(part) ? visitPart(part, `messages[${at}].content[${partAt}]`, visit) : part,
    );
    return { ...message, content };
  });
  return { ...body, messages };
}

function visitPart(part: Part, path: string, visit: (path: string, url: string) => string): Part {
  for (const name of MEDIA_PARTS) {
    const value = part[name];
    if (typeof value === 'string') return { ...part, [name]: visit(`${path}.${name}`, value) };
    if (isRecord(value) && typeof value.url === 'string') {
      return { ...part, [name]: { ...value, url: visit(`${path}.${name}.url`, value.url) } };
    }
  }
  return part;
}

function isRecord(value: unknown): value is Part {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
