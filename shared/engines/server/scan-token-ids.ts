const DIGIT_0 = 48;
const COMMA = 44;
const CLOSE = 93;
const ID_MAX = 0xffff_ffff;

let ids = new Uint32Array(1024);
const scanned = { ids, count: 0 };

/**
 * The ids of the list behind the first `marker` in `text`; undefined when there is none or it holds anything but plain ids
 * without spaces. The array is valid until the next call.
 */
export function scanTokenIds(
  text: string,
  marker: string,
): { readonly ids: Uint32Array; readonly count: number } | undefined {
  const start = text.indexOf(marker);
  if (start < 0) return undefined;
  let count = 0;
  let value = -1; // no digit yet
  for (let at = start + marker.length; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const digit = code - DIGIT_0;
    if (digit >= 0 && digit <= 9) {
      value = value < 0 ? digit : value * 10 + digit;
      if (value > ID_MAX) return undefined;
      continue;
    }
    const isEmpty = code === CLOSE && count === 0 && value < 0;
    if ((code !== COMMA && code !== CLOSE) || (value < 0 && !isEmpty)) return undefined;
    if (!isEmpty) {
      if (count === ids.length) grow();
      ids[count++] = value;
      value = -1;
    }
    if (code === CLOSE) {
      scanned.ids = ids;
      scanned.count = count;
      return scanned;
    }
  }
  return undefined;
}

function grow(): void {
  const larger = new Uint32Array(ids.length * 2);
  larger.set(ids);
  ids = larger;
}
