/** An HTTP answer as it came on a connection. */
export interface WireAnswer {
  readonly status: number;
  /** Its header lines, in lower case. */
  readonly head: string;
  readonly isWhole: boolean;
}

const NO_BODY: ReadonlySet<number> = new Set([101, 204, 304]);

/**
 * Splits the bytes of a connection into answers, in order, without those of status 100. An answer has a body if its
 * head says so.
 * @throws Error if other bytes stand in the place of an answer
 */
export function answersOf(bytes: Buffer): readonly WireAnswer[] {
  const answers: WireAnswer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const headEnd = bytes.indexOf('\r\n\r\n', at);
    const head = bytes.toString('latin1', at, headEnd < 0 ? bytes.length : headEnd).toLowerCase();
    const [, code] = /^http\/1\.1 (\d{3})(?: |$)/.exec(head) ?? [];
    if (headEnd < 0) {
      if (!'http/1.1 '.startsWith(head.slice(0, 9))) throw new Error(`no answer: ${head.slice(0, 200)}`);
      return answers;
    }
    if (code === undefined) throw new Error(`no answer: ${head.slice(0, 200)}`);
    const status = Number(code);
    const end = NO_BODY.has(status) || status === 100 ? headEnd + 4 : bodyEnd(bytes, headEnd + 4, head);
    if (status !== 100) answers.push({ status, head, isWhole: end !== undefined });
    if (end === undefined || status === 101) return answers;
    at = end;
  }
  return answers;
}

/** Returns the end of the body, or undefined if the body is incomplete. */
function bodyEnd(bytes: Buffer, from: number, head: string): number | undefined {
  if (!/\r\ntransfer-encoding: chunked/.test(head)) {
    const end = from + Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? Number.NaN);
    return end <= bytes.length ? end : undefined;
  }
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error(`not a chunk size: ${bytes.toString('latin1', at, lineEnd).slice(0, 200)}`);
    at = lineEnd + 2 + size + 2;
    if (at > bytes.length) return undefined;
    if (size === 0) return at;
  }
}
