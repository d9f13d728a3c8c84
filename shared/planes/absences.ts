/** Brokers that the planes of a process need and cannot reach, each once. */
export function absencesOf(planes: readonly { absence?(): string | undefined }[]): readonly string[] {
  return [...new Set(planes.flatMap((plane) => plane.absence?.() ?? []))];
}
