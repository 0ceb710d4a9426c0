/** What a role may: the server decides, this only greys what it would refuse. */
export function mayOperate(role: string | undefined): boolean {
  return role === "operator" || role === "admin";
}

export function mayAdmin(role: string | undefined): boolean {
  return role === "admin";
}
