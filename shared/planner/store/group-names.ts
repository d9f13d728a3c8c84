/**
 * Returns namespace and model of a group. A long name is cut, perhaps within a character that was encoded; then it
 * stays as it is.
 */
export function namesOf(group: string): readonly string[] {
  return group.split('#').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}
