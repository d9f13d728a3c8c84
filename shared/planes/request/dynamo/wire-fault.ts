/** Thrown if the other end of Dynamo's wire broke the protocol; its connection must be closed. */
export class WireFault extends Error {
  override readonly name = 'WireFault';
}
