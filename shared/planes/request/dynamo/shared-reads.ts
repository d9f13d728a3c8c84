import { Socket, type SocketConstructorOpts } from 'node:net';

/** Buffer into which all sockets read, one after the other. */
const readBuffer = Buffer.allocUnsafeSlow(64 << 10);

/** The open connection inside a socket of Node. */
interface Inside {
  _handle?: object | null;
}

/**
 * Passes on what an accepted connection receives, as bytes that are valid only during the call. Returns the socket to
 * use from now on.
 *
 * Node allocates 64 KiB for each read of a socket that a server accepts. Only a socket that a program creates can read
 * into a buffer of the program. So another socket takes over the connection. The accepted socket lives as long as that
 * one, because its server counts it. The connection of a socket that may have read something already, or that encrypts,
 * stays where it is.
 *
 * @param accepted socket of a server; the server must set `pauseOnConnect` for the connection to be taken over
 */
export function readShared(accepted: Socket, onBytes: (bytes: Buffer) => void): Socket {
  const inside = accepted as Inside;
  const handle = inside._handle;
  if (!accepted.isPaused() || !handle) {
    accepted.on('data', onBytes);
    return accepted;
  }
  inside._handle = null;
  const callback = (count: number): boolean => {
    onBytes(readBuffer.subarray(0, count));
    return true; // a socket that is to pause is paused by then
  };
  const options = { handle, allowHalfOpen: accepted.allowHalfOpen, onread: { buffer: readBuffer, callback } };
  const socket = new Socket(options as SocketConstructorOpts); // the types leave the handle out
  socket.once('close', () => accepted.destroy());
  return socket;
}
