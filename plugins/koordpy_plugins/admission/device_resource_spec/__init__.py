"""Write GPU requests in the form that device scheduling reads."""
