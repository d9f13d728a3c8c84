import { connect, type Socket } from 'node:net';

/** Everything a connection received, as text. */
export class RawClient {
  readonly socket: Socket;
  text = '';
  isClosed = false;

  /** @param isLazy never ends its side of the connection, like a client that leaves its idle connections open */
  constructor(port: number, isLazy = false) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: isLazy });
    this.socket.on('data', (chunk) => {
      this.text += chunk.toString('latin1');
    });
    this.socket.on('close', () => {
      this.isClosed = true;
    });
    this.socket.on('error', () => undefined); // a reset is a way to close
  }

  send(text: string): void {
    this.socket.write(text, 'latin1');
  }
}

/** A request as it is written on a connection. */
export function postText(path: string, body: object, version = '1.1', headers = ''): string {
  const text = JSON.stringify(body);
  return (
    `POST ${path} HTTP/${version}\r\nhost: t\r\ncontent-type: application/json\r\n${headers}` +
    `content-length: ${text.length}\r\n\r\n${text}`
  );
}

export const LIVE = 'GET /live HTTP/1.1\r\nhost: t\r\n\r\n';
