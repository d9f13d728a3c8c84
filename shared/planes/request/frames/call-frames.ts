import { isLimitName, type WireError } from '../../../errors/index.ts';
import { isRecord } from '../../../records/index.ts';
import type { ClientCall } from '../client-call.ts';
import { FrameError, FrameType, type FrameTypeCode } from './frame.ts';

const MESSAGE_LENGTH_MAX = 16 << 10;
const NAME_LENGTH_MAX = 256;
const RETRY_MS_MAX = 86_400_000;

/** Tells `call` what one frame of its stream says. Throws `FrameError` for what no worker sends; the sink may throw, too. */
export function deliverToCall(call: ClientCall, type: FrameTypeCode, record: unknown): void {
  if (!isRecord(record)) throw new FrameError(`frame type ${type} without a record`);
  switch (type) {
    case FrameType.prologue:
      if (record.error === null || record.error === undefined) call.accept();
      else call.failRemote(readWireError(record.typed_error, record.error));
      break;
    case FrameType.data:
      if (isRecord(record.error)) call.failRemote(readWireError(record.error, undefined));
      else if (isRecord(record.data)) call.item(record.data);
      else throw new FrameError('DATA without an item');
      break;
    case FrameType.end:
      call.end();
      break;
    case FrameType.error:
      call.failRemote(readWireError(record, undefined));
      break;
    default:
      throw new FrameError(`frame type ${type} from a worker`);
  }
}

/** A failure as a frame carries it, whatever shape it has. */
export function readWireError(record: unknown, fallbackMessage: unknown): WireError {
  const fields = isRecord(record) ? record : {};
  const { kind = 'Unknown', message = fallbackMessage, status, param, code, retryAfterMs, limit } = fields;
  return {
    kind: kind as WireError['kind'], // `fromWire` reads an unknown name as Unknown
    message: typeof message === 'string' ? message.slice(0, MESSAGE_LENGTH_MAX) : 'no message',
    status: typeof status === 'number' ? status : undefined,
    param: typeof param === 'string' ? param.slice(0, NAME_LENGTH_MAX) : undefined,
    code: typeof code === 'string' ? code.slice(0, NAME_LENGTH_MAX) : undefined,
    limit: isLimitName(limit) ? limit : undefined,
    retryAfterMs:
      typeof retryAfterMs === 'number' && retryAfterMs >= 0 ? Math.min(retryAfterMs, RETRY_MS_MAX) : undefined,
  };
}
