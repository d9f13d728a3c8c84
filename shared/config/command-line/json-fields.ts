type Fields = Record<string, unknown>;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // as the engine does: a value that is not JSON is a text
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Returns `fields` with the value at `path`. If the last part of `path` ends in `+`, the text holds elements of a list,
 * separated by commas.
 */
export function readFields(fields: Fields, path: readonly string[], text: string): Fields {
  const [first = '', ...rest] = path;
  if (rest.length > 0) {
    const inner = fields[first];
    return { ...fields, [first]: readFields(isFields(inner) ? inner : {}, rest, text) };
  }
  if (!first.endsWith('+')) return { ...fields, [first]: parsed(text) };
  const name = first.slice(0, -1);
  const before = fields[name];
  return { ...fields, [name]: [...(Array.isArray(before) ? before : []), ...text.split(',')] };
}

function merge(whole: Fields, fields: Fields): Fields {
  const merged: Fields = { ...whole };
  for (const [name, value] of Object.entries(fields)) {
    const before = merged[name];
    merged[name] = isFields(before) && isFields(value) ? merge(before, value) : value;
  }
  return merged;
}

/** Returns the JSON object of `text` with these fields added; undefined if the text is not one. */
export function mergeFields(text: string, fields: Fields): string | undefined {
  const whole = parsed(text);
  return isFields(whole) ? JSON.stringify(merge(whole, fields)) : undefined;
}
