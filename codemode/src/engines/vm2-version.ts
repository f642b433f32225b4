/** Which vm2 is taken: older ones have known ways out that newer ones closed. */
export const vm2VersionMin = '3.12.2';

export function isVm2Recent(version: string): boolean {
  const wanted = vm2VersionMin.split('.').map(Number);
  const parts = version.split('.').map(Number);
  const differs = wanted.findIndex((part, at) => parts[at] !== part);
  return differs < 0 || (parts[differs] ?? 0) > (wanted[differs] ?? 0);
}
